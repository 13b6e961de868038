"""The operations of a node, as its doors offer them."""
