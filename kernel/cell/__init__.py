"""The cell's own shell: what runs around behaviours in a cell. Of ours it imports ``kernel.abi`` and nothing
else.
"""
