"""What nodes ask of one another: messages, spawns, monitors."""
