"""The parts of a training step that are compiled, and the autocast and grad modes in which they run."""
