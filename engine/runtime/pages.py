"""Web pages as Markdown, made by a process with limits (`page_child`). Called on threads, by `session.tool_calls`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final, NamedTuple

from ..core.import_path import own_import_path
from ..core.text import cut_line, whole_words_before_cut
from .page_child import TEXT_CHARS, TITLE_CHARS
from .zygote import KEPT_VARIABLES

SECONDS: Final = 20.0
"""How long it may take. Its processor time is limited too."""
_CHILD: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_child.py")
UNCONVERTED: Final = "the page is too large or too complex to be converted"


class Page(NamedTuple):
    """The title and the Markdown of a page."""

    title: str
    text: str


def markdown_of(data: bytes, url: str, charset: str = "") -> Page:
    """Return a page as Markdown. Blocks for at most SECONDS.

    Raises ValueError if that is impossible within the limits.
    """
    places = own_import_path(sys.path, os.environ.get("PYTHONPATH", ""))
    command = (sys.executable, "-S", "-s", "-P", "-X", "utf8", _CHILD, sys.prefix, sys.exec_prefix, *places)
    request = json.dumps({"url": url, "charset": charset}).encode()
    try:
        done = subprocess.run(  # noqa: S603 -- our own interpreter and script
            command,
            input=b"\n".join((request, data)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
            cwd="/",
            start_new_session=True,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        text: str = answer["text"]
        if len(text) > TEXT_CHARS:
            text = f"{whole_words_before_cut(text[:TEXT_CHARS])}\n"
        return Page(cut_line(answer["title"], TITLE_CHARS), text)
    except (OSError, KeyError, ValueError, subprocess.TimeoutExpired):
        raise ValueError(UNCONVERTED) from None
