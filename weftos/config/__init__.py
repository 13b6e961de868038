"""Configuration: files, environment, settings."""
