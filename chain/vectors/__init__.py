"""Vectors of documents on disk."""
