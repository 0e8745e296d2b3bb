"""Results of torch's own tools, provided automatically."""
