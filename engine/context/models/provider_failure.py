"""A call to a provider that failed, as the value that says whether to make it again. Raised by `provider_stream` and
caught by `provider`; it never leaves this package."""

from __future__ import annotations

from ..model_protocol import ModelError


class ProviderFailure(Exception):  # noqa: N818 -- it carries the error that is shown, and is none itself
    """One attempt failed: `error` is for the user. `after` is how many seconds the provider asks to be left alone."""

    def __init__(self, error: ModelError, *, transient: bool = False, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.transient = transient
        self.after = after
