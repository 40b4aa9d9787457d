"""The system's processes: limits, memory, programs, and the ending of their trees."""
