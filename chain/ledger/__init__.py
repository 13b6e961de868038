"""The ledger: one object over all of its parts."""
