"""What configuration says of the calls of a turn, and the gate that holds them to it."""
