"""Makes a change: the file is as before or as after, never between."""

from __future__ import annotations

import os

from .change import Change
from .workspace import Workspace


def land(workspace: Workspace, change: Change) -> None:
    """Writes the file. Raises OSError."""
    os.makedirs(os.path.dirname(change.path), exist_ok=True)
    with open(f"{change.path}.new", "wb") as file:
        file.write(change.after)
    os.replace(f"{change.path}.new", change.path)
