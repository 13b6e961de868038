"""Commands on processes: spawn, list, talk, letters, memory."""
