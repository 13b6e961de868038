"""Encrypted links between nodes: Noise sessions, over whatever wire."""
