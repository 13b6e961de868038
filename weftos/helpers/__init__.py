"""The helper processes of a node and the programs that they run."""
