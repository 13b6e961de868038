"""What follows when a provider fails: the machine, when to try again, and what puts it around a question."""
