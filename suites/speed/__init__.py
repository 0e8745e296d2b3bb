"""Speed cases over vision, transformers and captioning models."""
