"""Tools: how one is declared, what may be given to it, and those that are built in."""
