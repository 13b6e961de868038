"""What the kernel's parts speak of: addresses, PIDs, specs, capabilities, states."""
