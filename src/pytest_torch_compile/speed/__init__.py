"""The speed gate: measuring needs torch, deciding neither torch nor pytest."""
