"""Encrypted links between nodes: Noise over ZeroMQ."""
