"""torchao's float8 training, compiled."""
