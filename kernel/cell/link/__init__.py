"""The link between a node and a cell: frames, leases, Noise."""
