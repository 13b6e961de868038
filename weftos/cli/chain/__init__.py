"""Commands on the ledger."""
