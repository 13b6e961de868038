"""What can be configured of an agent: the keys, their types, defaults and limits, and the check of them."""
