"""Budgets: accounts of addresses, and what is reserved, spent and handed on of each. Pure."""
