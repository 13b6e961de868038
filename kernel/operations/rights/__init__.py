"""What a process may do and use, as it is asked for: the set of its capabilities, and what policy says of it."""
