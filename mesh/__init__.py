"""The mesh: connects nodes. This package is empty; a node of this version stands alone.

Its place in the house is fixed all the same, so that nothing grows into it: ``mesh`` may import ``chain`` and
may be imported by ``kernel``, ``cognition`` and ``weftos``. What comes here next: identity, Noise links over
ZeroMQ, membership, replicated state and witnessing of each other's tree heads.
"""
