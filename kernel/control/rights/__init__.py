"""What people may ask of rights: why a process may do something, and why not."""
