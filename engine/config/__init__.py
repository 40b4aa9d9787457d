"""What surrounds a session: settings, the project's own Python, secrets, the system's clock and randomness."""
