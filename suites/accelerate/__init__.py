"""Compiled models under Hugging Face Accelerate."""
