"""What a process asks of the node: tools, models, memory, and what became of it."""
