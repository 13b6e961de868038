"""Messages within a node: mailboxes, dead letters, who watches."""
