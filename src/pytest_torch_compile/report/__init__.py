"""Reports and their output formats, with one module for each format."""
