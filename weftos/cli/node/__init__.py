"""Commands on nodes, clusters and peers."""
