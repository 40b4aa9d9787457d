"""What a picture of about 4 MB adds to a prompt, through a model server: decoding, storing and sending it.

Each prompt is the first of a session, so that none sends the pictures of another. The model answers at once; its time
is left out. Pillow alone, in this process, does the part that cannot be left out: it decodes the picture, scales it and
writes it again.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Final

from PIL import Image, ImageFilter

from benchmarks.clients import Client
from benchmarks.environments import Checkout
from benchmarks.measuring import Setting, duration, row
from benchmarks.model_server import ModelServer, model_server
from benchmarks.report import Row
from engine.core.pictures import LONGEST_EDGE

ROUNDS: Final = 7
ADDED: Final = 0.150
MODEL: Final = "provider:openai-chat:gpt-5"
QUESTION: Final = "What is in this picture?"


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """A row for each kind of picture."""
    return [_row(name, make(), setting) for name, make in PICTURES.items()]


def _row(name: str, picture: tuple[str, bytes], setting: Setting) -> Row:
    kind, data = picture
    block = {"type": "image", "mimeType": kind, "data": b64encode(data).decode()}
    added: dict[str, list[float]] = {each: [] for each in setting.checkouts}
    with model_server() as server, tempfile.TemporaryDirectory() as place:
        for each, checkout in setting.checkouts.items():
            with_and_without = _played(checkout, Path(place) / each, server, block, setting.rounds(ROUNDS))
            added[each] = [with_picture - without for without, with_picture in with_and_without[1:]]
    medians = {each: statistics.median(values) for each, values in added.items()}
    alone = statistics.median(_alone(data) for _ in range(setting.rounds(ROUNDS)))
    return row(
        f"{name} of {len(data) / 1e6:.1f} MB in a prompt adds",
        medians,
        duration,
        peer=f"Pillow alone {duration(alone)}",
        bar=f"<= {duration(ADDED)}",
        met=medians["ours"] <= ADDED,
    )


def _played(
    checkout: Checkout, state: Path, server: ModelServer, block: dict[str, str], rounds: int
) -> list[tuple[float, float]]:
    """Our own seconds for a prompt without the picture and with it, by round."""
    found: list[tuple[float, float]] = []
    state.mkdir()
    client = Client((checkout.agent, "--model", MODEL), state, str(state), server.variables)
    client.open()
    text = {"type": "text", "text": QUESTION}
    for _ in range(rounds + 1):
        plain, shown = (_own_time(client, server, prompt) for prompt in ([text], [text, block]))
        found.append((plain, shown))
    client.close()
    return found


def _own_time(client: Client, server: ModelServer, prompt: list[dict[str, str]]) -> float:
    session = client.call("session/new", {"cwd": client.cwd, "mcpServers": []})["sessionId"]
    params = {"sessionId": session, "prompt": prompt}
    client.ids += 1
    line = json.dumps({"jsonrpc": "2.0", "id": client.ids, "method": "session/prompt", "params": params}).encode()
    assert client.process.stdin
    server.calls.clear()
    began = perf_counter()
    client.process.stdin.write(line + b"\n")
    client.process.stdin.flush()
    client.response(client.ids)
    took = perf_counter() - began
    (call,) = server.calls
    return took - (call.answered - call.asked)


def _alone(data: bytes) -> float:
    began = perf_counter()
    image = Image.open(BytesIO(data)).convert("RGB")
    image.thumbnail((LONGEST_EDGE, LONGEST_EDGE))
    image.save(BytesIO(), "JPEG", quality=85)
    return perf_counter() - began


def _photo() -> tuple[str, bytes]:
    """A JPEG of 12 megapixels with much detail."""
    noise = Image.frombytes("RGB", (1000, 750), random.Random(1).randbytes(1000 * 750 * 3))
    out = BytesIO()
    noise.resize((4000, 3000), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1)).save(
        out, "JPEG", quality=85
    )
    return "image/jpeg", out.getvalue()


def _screenshot() -> tuple[str, bytes]:
    """A PNG as large as a screen: an area of photos in plain ground."""
    image = Image.new("RGB", (2560, 1440), (250, 250, 252))
    image.paste(Image.frombytes("RGB", (1200, 1080), random.Random(2).randbytes(1200 * 1080 * 3)), (80, 80))
    out = BytesIO()
    image.save(out, "PNG")
    return "image/png", out.getvalue()


PICTURES: Final[dict[str, Callable[[], tuple[str, bytes]]]] = {"a photo": _photo, "a screenshot": _screenshot}
