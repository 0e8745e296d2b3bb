"""Reports and their output formats, one file for each format."""
