"""Turns: the undisturbed ones that calibrate, several in a session or at once, kinds of content, errors."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver
from conformance.scenarios.acp1_agent.client import (
    QUIET,
    advertises,
    begin,
    finish_turn,
    open_session,
    prompt_params,
    start_turn,
    text_block,
    turn,
)
from conformance.suite import Scenario
from conformance.values import Object

_LONGEST: Final = 12.0
"""Seconds for which an undisturbed slow turn is watched; one that takes longer is slow enough."""
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def _opening(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = start_turn(driver, session, driver.options.prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)
    slow = start_turn(driver, session, driver.options.slow_prompt, label="slow-turn")
    driver.response(slow, _LONGEST)


def _several(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    for label in ("first", "second", "third"):
        request = start_turn(driver, session, driver.options.prompt, label=label)
        finish_turn(driver, request)


def _interleaved(driver: Driver) -> None:
    begin(driver)
    sessions = [open_session(driver), open_session(driver)]
    requests = [start_turn(driver, session, driver.options.prompt) for session in sessions]
    for label, request in zip(("first", "second"), requests, strict=True):
        driver.mark(label, request)
        finish_turn(driver, request)


def _tool(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = start_turn(driver, session, driver.options.tool_prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)


def _two_texts(driver: Driver) -> None:
    begin(driver)
    blocks = text_block(driver.options.prompt), text_block("Answer briefly.")
    params = prompt_params(open_session(driver), *blocks)
    finish_turn(driver, driver.request("session/prompt", params, label="prompt"))


def _content(driver: Driver, label: str, block: Object, *, capability: str | None = None) -> None:
    begin(driver)
    session = open_session(driver)
    if capability is not None and not advertises(driver, f"promptCapabilities.{capability}"):
        driver.mark("unadvertised", capability)
    request = driver.request(
        "session/prompt", prompt_params(session, text_block(driver.options.prompt), block), label=label
    )
    finish_turn(driver, request)


def _link(driver: Driver) -> None:
    path = f"{driver.options.cwd}/README.md"
    _content(driver, "prompt", {"type": "resource_link", "uri": f"file://{path}", "name": "README.md"})


def _image(driver: Driver) -> None:
    _content(driver, "prompt", {"type": "image", "data": PNG, "mimeType": "image/png"}, capability="image")


def _audio(driver: Driver) -> None:
    _content(driver, "prompt", {"type": "audio", "data": WAV, "mimeType": "audio/wav"}, capability="audio")


def _resource(driver: Driver) -> None:
    resource = {"uri": "file:///project/notes.txt", "mimeType": "text/plain", "text": "Some notes.\n"}
    _content(driver, "prompt", {"type": "resource", "resource": resource}, capability="embeddedContext")


def _unknown_session(driver: Driver) -> None:
    begin(driver)
    request = start_turn(driver, "rewindow-conformance-no-such-session", driver.options.prompt, label="prompt")
    driver.response(request)
    turn(driver, open_session(driver), driver.options.prompt)


def _optional_nulls(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver, _meta=None)
    annotations = {"audience": None, "priority": None, "lastModified": None, "_meta": None}
    block = {**text_block(driver.options.prompt), "annotations": annotations, "_meta": None}
    request = driver.request("session/prompt", {**prompt_params(session, block), "_meta": None}, label="prompt")
    finish_turn(driver, request)


OPENING: Final = Scenario("opening", "Runs an undisturbed turn, and a slow one, which are timed.", _opening, alone=True)
SCENARIOS: Final = (
    Scenario("two-texts", "Prompts with two blocks of text.", _two_texts),
    Scenario("several-turns", "Runs three turns in one session.", _several),
    Scenario("interleaved-sessions", "Runs turns of two sessions at the same time.", _interleaved),
    Scenario(
        "tool-turn",
        "Runs a turn that uses tools, with files and terminals offered, and allows all.",
        _tool,
        passive=True,
    ),
    Scenario("resource-link", "Prompts with a text and a resource link.", _link),
    Scenario("image", "Prompts with an image.", _image),
    Scenario("audio", "Prompts with a sound.", _audio),
    Scenario("embedded-resource", "Prompts with an embedded resource.", _resource),
    Scenario("unknown-session", "Prompts in a session that does not exist, then in one that does.", _unknown_session),
    Scenario("prompt-nulls", "Prompts with null wherever the schema allows it.", _optional_nulls),
)
