"""What is kept of messages beside those that wait: keys that they were sent under, and who subscribes to what."""
