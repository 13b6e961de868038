"""What stands beside the entries and is bound to them: snapshots, recovery."""
