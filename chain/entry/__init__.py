"""Entries, records and frames, and how they are read back."""
