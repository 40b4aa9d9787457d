"""Exceptions of user code as recorded values: bounded, from the user's first frame on, with notes and chained causes.

Calls `str` and `repr` of user exceptions, so callers run it under the statement's interrupt flag. Must not know how the
exception came about. Used by `executor`.
"""

from __future__ import annotations

import os
import traceback
from typing import Final

from ....core.execution import ExceptionInfo
from ....core.text import cut_middle

MESSAGE_LIMIT: Final = 4096
TRACEBACK_LIMIT: Final = 16384
"""Characters kept; of a longer traceback the middle is left out, because its ends say what and where."""
_FRAMES: Final = 2000
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))) + os.sep
"""The package that the worker runs on."""
_LABEL: Final = "<statement "


def describe_failure(error: BaseException, *, traced: bool = True) -> ExceptionInfo:
    """Type, message and traceback; whatever the exception's own methods raise becomes part of the message.

    Where nobody will read the traceback it need not be `traced`, which takes longer than most statements.
    """
    message = cut_middle(_message(error), MESSAGE_LIMIT)
    return ExceptionInfo(
        type=type(error).__name__,
        message=message,
        traceback=cut_middle(_traceback(error), TRACEBACK_LIMIT) if traced else "",
    )


def _traceback(error: BaseException) -> str:
    report = traceback.TracebackException(type(error), error, error.__traceback__, limit=_limit(error), compact=True)
    _strip(report, set())
    return "".join(report.format())


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        return f"<its str() raised {type(failure).__name__}>"


def _limit(error: BaseException) -> int | None:
    depth, step = 0, error.__traceback__
    while step is not None:
        depth, step = depth + 1, step.tb_next
    # A negative limit keeps the last frames: of a runaway recursion the end is enough.
    return -_FRAMES if depth > _FRAMES else None


def _strip(report: traceback.TracebackException, done: set[int]) -> None:
    """Leaves out our own frames before the user's first, and after the statement's last with all that we called."""
    if id(report) in done:
        return
    done.add(id(report))
    frames = list(report.stack)
    first = next((i for i, frame in enumerate(frames) if not _is_ours(frame)), len(frames))
    own = max((i for i, frame in enumerate(frames) if frame.filename.startswith(_LABEL)), default=first)
    last = next((i for i, frame in enumerate(frames) if i > own and _is_ours(frame)), len(frames))
    report.stack[:] = frames[first:last]
    for chained in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if chained is not None:
            _strip(chained, done)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_OURS)
