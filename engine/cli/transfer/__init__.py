"""Sessions in and out of the store: our own JSON Lines, conversations of other programs, and both commands."""
