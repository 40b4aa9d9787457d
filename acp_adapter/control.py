"""What the process that places a host and the host say to each other, over the control socket that both have.

Imports the standard library alone, because a cluster keeps one placing process for each user (`listening.cluster`).
The protocol is described in `hosting`, which is the host's end. `listening.placement` is the other one.
"""

from __future__ import annotations

import struct
from typing import Final

OPTION: Final = "--connections"
"""The hidden option of `rewindow-acp` that makes it a host, with the number of the control socket."""
IDLE_OPTION: Final = "--idle"
"""The option with the minutes after which a session that no client has is closed."""
BEAT: Final = b"b"
CONNECTION: Final = b"c"
"""What is sent with a descriptor."""
ASK: Final = b"a"
ANSWER: Final = struct.Struct("!?Q")
"""Whether the host is unused, and how many connections it has received."""
SILENT_SECONDS: Final = 10.0
"""A host that has had a beat ends when no other one comes for so long."""
