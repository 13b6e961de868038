"""Documents and their vectors, asked of the archive."""
