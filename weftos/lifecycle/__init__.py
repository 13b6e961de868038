"""How nodes are made, started and stopped."""
