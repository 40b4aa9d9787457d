"""What is done with programs: a folder for each suite. A scenario drives and concludes nothing."""
