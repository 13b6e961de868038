"""Who is who: keys, peers, join tokens."""
