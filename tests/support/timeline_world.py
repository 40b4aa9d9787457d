"""What the statements of a random session act on, beside it: the disk, and a user who is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class World:
    """What statements act on: files that only others write, those that only statements do, and a user who is asked."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    allows: bool = True

    @property
    def written(self) -> dict[str, str]:
        return {name: text for name, text in self.files.items() if name.startswith("out-")}

    def put_back(self, written: Mapping[str, str]) -> None:
        for name in self.written:
            del self.files[name]
        self.files |= written
