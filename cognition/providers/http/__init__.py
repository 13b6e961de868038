"""HTTP as providers speak it: a server and its connections, and the events that it streams."""
