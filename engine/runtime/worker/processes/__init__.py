"""The system's processes: limits, memory, brands, privileges, programs, and how a tree of them is ended."""
