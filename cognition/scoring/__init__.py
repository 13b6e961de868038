"""How a turn went, in numbers that say what they are made of."""
