"""Who is here."""
