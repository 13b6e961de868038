"""What is seen of turns while they run and afterwards, made of the journal."""
