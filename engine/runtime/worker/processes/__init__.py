"""The system's processes: limits, memory, brands, privileges, programs, and the ending of their trees."""
