"""The mesh: connects nodes that know each other.

What is here: identity (``identity``: a node's Noise key, bound to its signing keys), the Noise handshake and its
cipher (``noise``), the session over it (``session``: frames, chunks, admission), join tokens (``tokens``), the
allow list with what each peer may (``peers``), the limits (``bounds``), and above these the links over ZeroMQ,
the members' states and adverts, and delivery with durable dedupe. ``docs/mesh.md`` tells it as one story.

The first honest version: every node talks to every peer in its list directly, and knows of nobody else. Later
ones bring SWIM membership, replicated ledgers and witnessing of each other's tree heads.

``mesh`` imports ``chain`` alone of ours, and may be imported by ``kernel`` and ``weftos``.
"""
