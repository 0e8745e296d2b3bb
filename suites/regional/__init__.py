"""Regional compilation: compile the repeated blocks of a model rather than the whole model."""
