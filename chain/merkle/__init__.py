"""The Merkle tree of RFC 6962 and what is proved with it."""
