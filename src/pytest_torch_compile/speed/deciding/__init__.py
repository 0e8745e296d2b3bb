"""From measured runs to a verdict. Neither torch nor pytest."""
