"""The bars, measured beside their peers in the same run: `make bench`. One module for each subject, with `run`."""
