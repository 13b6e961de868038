"""What a node does beside its work: erasing, watching its clock and its loop."""
