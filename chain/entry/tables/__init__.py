"""The rows of the table of ledger kinds, by what they tell of."""
