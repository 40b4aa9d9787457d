"""Why an MCP server is not connected: which failures another attempt may mend, and the sentence that is said of one.

Pure but for what the process tells of its end. Used by `servers`.
"""

from __future__ import annotations

from typing import Final, cast

from ..core.programs import ServerProcess
from ..core.text import cut_line, cut_line_from, printable

_REASON_CHARS: Final = 500
_LAST_CHARS: Final = 300
"""Of what a server wrote to its standard error at last, in the reason."""


def _first(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


def reason_of(error: BaseException, process: ServerProcess | None, seconds: float) -> tuple[bool, str]:
    """Whether another attempt may help, and in a sentence why there was no connection, or why it ended.

    `seconds` is how long an attempt may take.
    """
    error = _first(error)
    match error:
        case TimeoutError():
            said = f"it does not answer within {seconds:g} s"
        case OSError(strerror=str() as words):
            said = words if not error.filename else f"{words}: {error.filename}"
        case _:
            said = str(error) or type(error).__name__
    last = "" if process is None else " ".join(process.told().split())
    is_final = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | ValueError)
    ended = f"; {cut_line_from(last, len(last) - _LAST_CHARS, _LAST_CHARS)}" if last else ""
    sentence = " ".join(said.split()) + ended
    return not is_final, cut_line(printable(sentence), _REASON_CHARS)
