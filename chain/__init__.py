"""What remembers: the ledger's entries, tree, keys, signed heads, journal, receipts, and their verification.

Imports nothing of ours. ``entry``, ``merkle``, ``proof``, ``note``, ``head``, ``receipt`` and ``kinds`` are
pure; ``keys`` and the journal's modules touch files.
"""
