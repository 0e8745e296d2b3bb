"""A function run in several processes of one process group."""
