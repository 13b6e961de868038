"""What file tools may touch of a workspace."""
