"""A module that cannot be imported."""

raise RuntimeError("this import fails")
