"""Several nodes on one machine."""
