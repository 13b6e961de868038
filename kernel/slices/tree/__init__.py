"""Which processes there are meant to be: their slots, and the PIDs that were theirs."""
