"""What each process waits for, since when and until when: how that follows, and where it is read."""
