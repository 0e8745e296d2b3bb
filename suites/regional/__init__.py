"""Regional compilation: the repeated blocks of a model, not the whole."""
