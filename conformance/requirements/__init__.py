"""What programs are held to: a folder for each suite, a file for each area, a row for each requirement."""
