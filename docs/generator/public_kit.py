"""Maps requirements of the public compatibility kit to ours, by id.

The kit is https://github.com/EugeneTheDev/acp-tck; only the ids of its requirements for version 1 are repeated here, as
of the commit below. Used by the conformance page. A test compares the ids with the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COMMIT: Final = "199755295e746b8d000bd3208af1280a2fbabf75"
LINK: Final = f"https://github.com/EugeneTheDev/acp-tck/blob/{COMMIT}/src/tck/v1/requirements.py"

_SHAPES: Final = (
    "INIT-001",
    "NEW-001",
    "PROMPT-001",
    *(f"UPDATE-{number:03}" for number in range(1, 17)),
    "PERM-001",
    "RPC-020",
)
KIT: Final[Mapping[str, tuple[str, ...]]] = {
    "TRANSPORT-001": ("FRAME-001", "RPC-001"),
    "TRANSPORT-002": ("FRAME-002",),
    "JSONRPC-001": ("RPC-006",),
    "JSONRPC-002": ("RPC-002", "RPC-003"),
    "JSONRPC-003": ("RPC-005",),
    "JSONRPC-004": ("RPC-011", "RPC-013"),
    "JSONRPC-005": ("RPC-018",),
    "INIT-001": ("INIT-001",),
    "INIT-002": ("INIT-002",),
    "INIT-003": ("INIT-003",),
    "INIT-004": ("INIT-010",),
    "SCHEMA-001": _SHAPES,
    "SCHEMA-002": ("RPC-009",),
    "SESSION-001": ("NEW-001",),
    "SESSION-002": ("NEW-002",),
    "PROMPT-001": ("PROMPT-001", "PROMPT-002"),
    "PROMPT-002": ("UPDATE-016", "PROMPT-014", *_SHAPES[3:18]),
    "PROMPT-003": ("PROMPT-005",),
    "CANCEL-001": ("CANCEL-001",),
    "CANCEL-002": ("ORDER-001",),
    "LOAD-001": ("LOAD-001", "LOAD-002"),
    "LOAD-002": ("LOAD-006",),
    "LOAD-003": ("LOAD-001",),
    "RESUME-001": ("RESUME-001", "RESUME-002"),
    "RESUME-002": ("RESUME-003",),
    "LIST-001": ("LIST-001",),
    "LIST-002": ("LIST-006",),
    "DELETE-001": ("DELETE-001", "RPC-020"),
    "DELETE-002": ("DELETE-003",),
    "CLOSE-001": ("CLOSE-001", "RPC-020"),
    "CLOSE-002": ("CLOSE-002",),
    "ADDDIRS-001": ("NEW-005",),
    "MODES-001": ("MODE-001", "NEW-001"),
    "MODES-002": ("MODE-004", "UPDATE-008"),
    "CONFIG-001": ("CONFIG-001",),
    "CONFIG-002": ("CONFIG-006", "CONFIG-007"),
    "CONFIG-003": ("CONFIG-003",),
    "PROMPTCAP-001": ("PROMPT-006",),
    "PROMPTCAP-002": ("PROMPT-007",),
    "PROMPTCAP-003": ("PROMPT-008",),
    "AUTH-001": ("INIT-011",),
    "AUTH-002": ("INIT-012",),
    "AUTH-003": ("AUTH-001", "RPC-020"),
    "AUTH-004": ("AUTH-002", "RPC-020"),
    "AUTH-005": ("AUTH-003",),
    "CLIENTCAP-001": ("FS-001", "FS-002"),
    "CLIENTCAP-002": ("TERM-001",),
    "CLIENTCAP-003": ("ELICIT-001",),
    "EXT-001": ("RPC-012",),
    "META-001": ("INIT-014",),
    "ERROR-001": ("RPC-021",),
    "SHUTDOWN-001": ("FRAME-017",),
    "STDERR-001": ("FRAME-021",),
    "INFO-PARSE-001": ("FRAME-009", "FRAME-010"),
    "INFO-INVALIDREQ-001": ("FRAME-009", "FRAME-010"),
    "INFO-UNKNOWNSESSION-001": ("PROMPT-011",),
}
"""Our ids without `ACP1-A-`, by the kit's id without `ACP-`."""


def section() -> list[str]:
    """Return the section as lines of Markdown."""
    rows = [f"| ACP-{theirs} | {', '.join(f'ACP1-A-{one}' for one in _ranges(ours))} |" for theirs, ours in KIT.items()]
    return [
        "### The public compatibility kit",
        "",
        f"The [public kit]({LINK})",
        "is another conformance suite. This table lists its requirements for agents of version 1, at commit",
        f"{COMMIT[:8]}, with the equivalent requirements of this suite:",
        "",
        "| kit | here |",
        "|---|---|",
        *rows,
        "",
    ]


def _ranges(ids: tuple[str, ...]) -> list[str]:
    """Combine consecutive numbers of an area into ranges."""
    runs: list[list[str]] = []
    for one in ids:
        area, _, number = one.rpartition("-")
        if runs and runs[-1][-1] == f"{area}-{int(number) - 1:03}":
            runs[-1].append(one)
        else:
            runs.append([one])
    return [run[0] if len(run) == 1 else f"{run[0]} to {run[-1].rpartition('-')[2]}" for run in runs]
