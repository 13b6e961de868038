"""The rules that a ledger must keep, and what breaks them."""
