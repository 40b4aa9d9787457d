"""The asynchronous side of the engine: sessions, the loop that drives a turn."""
