"""Views and groups as statements hold them: the board they live on, their names, their ticks, how they are listed."""
