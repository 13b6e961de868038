"""What may be done, and why not."""
