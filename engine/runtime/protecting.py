"""Has the kernel hold more places of a worker that lives: those that came to be, or lost their mount, since it began.

Must not know which these are. Called by `worker_environment`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

import anyio

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError

_SECONDS: Final = 10.0
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM: Final = (
    f"import sys; sys.path.insert(0, {os.path.dirname(_PACKAGE)!r});"
    f"from {os.path.basename(_PACKAGE)}.runtime.sandbox.protecting import main; main()"
)


async def hold(pid: int, domain: Domain, places: Sequence[str]) -> None:
    """Returns when nothing in the namespaces of that process can write the places any more, which are absolute.

    Those outside what the domain allows to write are left out. Takes some 30 ms.

    Raises:
        EnvironmentUnavailableError: the kernel does not hold them.
    """
    wanted = {"pid": pid, "writable": [*domain.writable, domain.scratch], "read_only": places}
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    try:
        with anyio.fail_after(_SECONDS):
            done = await anyio.run_process(command, input=json.dumps(wanted).encode(), check=False)
    except (OSError, TimeoutError) as error:
        raise EnvironmentUnavailableError(f"what other programs run could not be protected: {error}") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise EnvironmentUnavailableError(f"what other programs run could not be protected: {reason}")
