"""What comes from outside is looked at before a model reads it: whether it tries to give the orders."""
