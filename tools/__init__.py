"""Tools of the repository: changelog, generated documentation, links and releases."""
