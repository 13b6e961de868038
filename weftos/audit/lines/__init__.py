"""What the ledger has of conversations and turns, as lines of JSON."""
