"""Messages delivered once."""
