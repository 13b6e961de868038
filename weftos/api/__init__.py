"""The control API over the node's socket."""
