"""A wire over ZeroMQ: connections that carry the frames of links."""
