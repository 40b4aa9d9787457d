"""The program behind every transport: log, View, timeline, worker, projection. Knows no protocol."""
