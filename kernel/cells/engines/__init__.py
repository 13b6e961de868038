"""What starts and kills cells: child processes, or actors of Ray by the placer."""
