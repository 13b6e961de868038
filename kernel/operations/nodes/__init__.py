"""What may be asked of a cluster and of its nodes."""
