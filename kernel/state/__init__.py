"""What a node remembers: records, the state they make, its snapshot, and the one way to write it."""
