"""What a command, a server's call or a process changed in the session's directories.

`listing` finds the files and their states. `baseline` keeps what was there, and compares. `changes` compares around an
act, and puts what differs on the log as the same records that a tool's write leaves.
"""

from __future__ import annotations
