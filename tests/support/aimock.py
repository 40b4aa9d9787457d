"""aimock as a process: an LLM server that nobody here wrote. It takes a free port and is always killed."""

from __future__ import annotations

import contextlib
import json
import re
import selectors
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.node import command

SECONDS = 20.0
_LISTENING = re.compile(rb"listening on (http://\S+)")


class Aimock:
    """A running server. `url` has no path."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def openai(self) -> dict[str, str]:
        """The environment that leads OpenAI's clients here."""
        return {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": "sk-test-openai-key"}

    @property
    def anthropic(self) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-test-anthropic-key"}

    @property
    def google(self) -> dict[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": self.url, "GOOGLE_API_KEY": "test-google-key"}

    def journal(self) -> list[dict[str, Any]]:
        """What was asked so far, oldest first."""
        with urllib.request.urlopen(f"{self.url}/__aimock/journal", timeout=SECONDS) as response:
            return json.load(response)


@contextlib.contextmanager
def aimock(directory: Path, fixtures: Sequence[dict[str, Any]], *options: str) -> Iterator[Aimock]:
    """Serves `fixtures` strictly: what no fixture matches is an error, and so is thinking that came back wrongly."""
    path = directory / "fixtures.json"
    path.write_text(json.dumps({"fixtures": list(fixtures)}))
    arguments = ["--port", "0", "--fixtures", str(path), "--strict", "--validate-on-load", *options]
    process = subprocess.Popen(
        [*command("@copilotkit/aimock", "dist/cli.js"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield Aimock(_ready(process))
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout
        process.stdout.close()


def _ready(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    said = b""
    deadline = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if selector.select(deadline - time.monotonic()):
                chunk = process.stdout.read1(65536)
                said += chunk
                if found := _LISTENING.search(said):
                    return found[1].decode()
                if not chunk:
                    break
    raise AssertionError(f"aimock did not start: {said.decode(errors='replace')}")
