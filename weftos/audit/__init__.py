"""What an auditor reads out of a ledger."""
