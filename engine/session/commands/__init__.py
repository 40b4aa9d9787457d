"""The slash commands: a row for each in `table`, and what they do."""
