"""A node's keys and their rotation."""
