"""Applications: what of a tree is declared, what is there, and what makes the one of the other."""
