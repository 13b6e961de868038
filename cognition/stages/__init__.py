"""The stages of an agent's turn, one file each; :mod:`cognition.stages.table` has them in their order."""
