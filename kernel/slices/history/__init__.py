"""What sessions have done, and what their processes were told of it."""
