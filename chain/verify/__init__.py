"""Verification of a ledger, a folder of tiles, or a bundle."""
