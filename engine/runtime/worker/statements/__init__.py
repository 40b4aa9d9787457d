"""Running one statement: its phases, its requests to the host, its output and its failure."""
