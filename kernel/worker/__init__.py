"""Who runs the tools: a pool of worker processes, and the worker."""
