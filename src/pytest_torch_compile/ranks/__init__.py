"""Run a function in several processes of one process group."""
