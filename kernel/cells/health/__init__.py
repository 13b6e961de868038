"""Whether cells are there, and who takes them down."""
