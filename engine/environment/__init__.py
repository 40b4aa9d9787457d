"""The host's side of where statements run: the worker process behind `ports.Environment`."""
