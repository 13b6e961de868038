"""How many calls are carried out at once."""
