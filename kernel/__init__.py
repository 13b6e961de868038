"""The kernel: processes, supervision, mailboxes, capabilities, tools and workers. What thinks does not act."""
