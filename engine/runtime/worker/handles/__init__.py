"""Views and groups in a worker: their board, names, ticks, states and lists, and the files that they read."""
