"""The archive process: audit database and memory."""
