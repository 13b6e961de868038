"""The system prompt out of its sections, and what each question is made of."""
