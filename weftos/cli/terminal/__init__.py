"""What commands share: options, output, new files."""
