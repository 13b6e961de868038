"""A model server that is asked over HTTP: how it is configured, paced, asked again, and what its failures are."""
