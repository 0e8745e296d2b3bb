"""Compiled models under Lightning Fabric."""
