"""Lightning Fabric around compiled models."""
