"""The history of a session: events, the append-only log, branches, the store on disk, redaction, and read models.

Imports `core` alone. Must not know what a model reads or how statements run.
"""
