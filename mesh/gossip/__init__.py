"""What nodes tell one another unasked: adverts and heads."""
