"""What people may ask of messages to many: topics, and all below an address."""
