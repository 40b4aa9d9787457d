"""Going back and running again: heads, rewinds, replays, edits, and what came out differently."""
