"""Hugging Face Accelerate around compiled models."""
