"""An agent's turns, from message to answer, and what to do when one does not repeat itself."""
