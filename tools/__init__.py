"""Tools of the repository itself: the changelog, the generated documentation, links and releases."""
