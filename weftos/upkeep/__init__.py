"""Upkeep of a running node: erasing, compaction, key rotation."""
