"""The program behind every transport: log, View, timeline, worker, projection. Knows no protocol."""

__version__ = "0.1.0"
