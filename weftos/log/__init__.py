"""The node's log files."""
