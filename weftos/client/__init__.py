"""The client of the control API."""
