"""Recall: finding again what was written. Words (BM25), vectors, and their fusion; computes, holds no file."""
