"""Tools: what they declare, how their arguments are checked, and the worker processes that run them."""
