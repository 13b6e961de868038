"""The cell's own shell: what runs around behaviours in a cell. Of ours it imports ``kernel.abi`` and, for cells on
other machines, ``mesh.links.noise`` with its errors, and nothing else.
"""
