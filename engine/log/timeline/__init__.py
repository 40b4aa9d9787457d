"""The timeline of statements: what was run, what came of it, and how two runs differ. Values only, no processes."""
