"""Traces of turns, brought out of the node: into a file, or to whoever takes OTLP."""
