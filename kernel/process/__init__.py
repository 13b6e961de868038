"""The process tree: who runs, who is below whom, and how much of it anybody may have."""
