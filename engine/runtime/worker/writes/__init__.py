"""Files that a statement's own code changes: noticed and recorded, or, in a sandbox, redirected to the host."""
