"""What the commands for people share: the store and settings in force, and text that is fit for a terminal."""
