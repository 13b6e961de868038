"""The operations on other nodes, and what those may have done here."""
