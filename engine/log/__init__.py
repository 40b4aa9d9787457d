"""What happened in a session: events, the append-only log, branches, the store on disk, redaction, and what is computed
from events (timeline, cycles).

Imports `core` alone. Must not know what a model reads or how statements run.
"""
