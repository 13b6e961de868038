"""What can be asked of a node: one table, by noun. The API, the client, the handlers and the docs read it."""
