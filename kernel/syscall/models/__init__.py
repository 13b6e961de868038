"""Questions to models: how they are said, put to the gateway, answered and recorded."""
