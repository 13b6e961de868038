"""The parts of the node's durable state, each a function of the journal."""
