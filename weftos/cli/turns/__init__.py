"""Commands that look at turns: what one went through, what a model was shown, what they came to."""
