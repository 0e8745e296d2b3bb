"""transformers models."""
