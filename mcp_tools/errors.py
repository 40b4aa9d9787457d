"""What a call ends with that cannot be done; the message is the sentence that the client's model reads."""

from __future__ import annotations


class CallError(Exception):
    """Raised for a call that could not be done, by whoever finds out; `requests` makes a result of it."""
