"""What a check of `doctor` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "note", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `failed` means that sessions cannot work; `note`, that somebody might want to act."""

    grade: Grade
    text: str
