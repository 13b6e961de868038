"""What kind of work a message asks for, and how much: by words, by structure, and by weights fitted once."""
