"""One call of a model: what it reads, within the budget, what came of it, and how the past is condensed for it."""
