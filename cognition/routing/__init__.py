"""Which model a turn asks: tiers by complexity, what a sender may have, and which of a tier's models comes first."""
