"""What models were shown, out of the ledger."""
