"""What is published: tiles (C2SP), bundles, and their erasure."""
