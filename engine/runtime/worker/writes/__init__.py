"""Files that statements' own code changes: noticed and recorded, or led to the host where a sandbox holds them."""
