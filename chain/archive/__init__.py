"""The audit database: the ledger's entries as SQL."""
