"""How often what was used is used."""
