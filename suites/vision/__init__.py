"""torchvision models."""
