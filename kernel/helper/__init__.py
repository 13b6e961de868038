"""Processes of the operating system that belong to a node: started, heard, and surely ended."""
