"""The tables of states of a turn and of a call, and what reads them."""
