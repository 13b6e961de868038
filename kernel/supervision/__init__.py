"""What a supervisor decides, as a reducer."""
