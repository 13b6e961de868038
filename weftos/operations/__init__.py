"""What the doors ask of the kernel."""
