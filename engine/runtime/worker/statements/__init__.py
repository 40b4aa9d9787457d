"""Running one statement: its phases, what it asks of the host, what it printed and how it failed."""
