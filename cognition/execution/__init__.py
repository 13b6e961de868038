"""What the loop of questions and calls goes by: repetition, repairs, recovered calls, shapes of answers, claims."""
