"""How child slots are checked, written and changed."""
