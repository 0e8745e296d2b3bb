"""The modes of torch.compile."""
