"""Commands in a client's terminals: real ones, and fake ones on a virtual clock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any


class Command:
    """A process that writes its output to a file. Raises OSError."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as the command
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.file, stderr=self.file, env={**os.environ, **env}, cwd=cwd
        )

    def output(self) -> bytes:
        return os.pread(self.file.fileno(), 1 << 24, 0)

    def code(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Pretended:
    """The suite's probe without a process. Raises OSError."""

    def __init__(self, world: Any, words: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        if not os.path.isabs(words[0]) or not os.path.exists(words[0]):
            raise FileNotFoundError(words[0])
        self.written = b""
        self.ended: int | None = None
        self.held = ""
        verb, *rest = words[words.index("--") + 1 :]
        if verb == "lines":
            self.written = b"".join(b"line %d\n" % number for number in range(1, int(rest[0]) + 1))
            self.ended = int(rest[1])
        elif verb == "wide":
            self.written, self.ended = "\u00e9".encode() * int(rest[0]), 0
        elif verb == "show":
            shown = {"args": rest[1:], "env": env.get(rest[0]), "cwd": cwd}
            self.written, self.ended = json.dumps(shown).encode() + b"\n", 0
        elif verb == "hold":
            self.held, self.written = rest[0], b"holding\n"
            with open(self.held, "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            world.later(float(rest[1]), self.end)

    def end(self) -> None:
        if self.ended is None:
            self.ended = 0

    def output(self) -> bytes:
        return self.written

    def code(self) -> int | None:
        return self.ended

    def kill(self) -> None:
        if self.ended is None:
            self.ended = -9
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.held)
