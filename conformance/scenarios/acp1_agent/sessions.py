"""Sessions: new ones, and loading, resuming, listing, deleting and closing them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from conformance.driver import Driver
from conformance.scenarios.acp1_agent.client import (
    QUIET,
    begin,
    finish_turn,
    is_working,
    need,
    new_session_params,
    open_session,
    start_turn,
    turn,
)
from conformance.suite import Scenario
from conformance.values import Object, as_text, at

_MORE: Final = "sessionCapabilities.additionalDirectories"
_PAGES: Final = 50
"""Pages after which a list counts as endless."""


def _two(driver: Driver) -> None:
    begin(driver)
    open_session(driver)
    open_session(driver)
    open_session(driver)


def _no_cwd(driver: Driver) -> None:
    begin(driver)
    asked: dict[str, Object] = {"without-cwd": {"mcpServers": []}, "cwd-number": {"cwd": 5, "mcpServers": []}}
    for label, params in asked.items():
        request = driver.request("session/new", params, label=label)
        driver.response(request)


def _relative_cwd(driver: Driver) -> None:
    begin(driver)
    request = driver.request("session/new", {"cwd": "relative/path", "mcpServers": []}, label="relative-cwd")
    driver.response(request)


def _more_directories(driver: Driver) -> None:
    begin(driver)
    need(driver, _MORE)
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        params = new_session_params(driver, additionalDirectories=[str(Path(folder).resolve())])
        driver.response(driver.request("session/new", params, label="more-directories"))


def _again(driver: Driver, method: str) -> None:
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    turn(driver, session, driver.options.tool_prompt)
    driver.pause(QUIET)
    request = driver.request(method, new_session_params(driver, sessionId=session), label="again")
    driver.response(request)
    driver.pause(QUIET)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _load(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    _again(driver, "session/load")


def _load_after_restart(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    driver.restart()
    begin(driver)
    request = driver.request("session/load", new_session_params(driver, sessionId=session), label="after-restart")
    driver.response(request)


def _load_unknown(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    request = driver.request(
        "session/load", new_session_params(driver, sessionId="rewindow-conformance-unknown"), label="again"
    )
    driver.response(request)


def _resume(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.resume")
    _again(driver, "session/resume")


def _list(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.list")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    driver.mark("listed", session)
    _pages(driver, "all", {})
    _pages(driver, "here", {"cwd": driver.options.cwd})
    _pages(driver, "elsewhere", {"cwd": "/rewindow-conformance/no/such/directory"})


def _pages(driver: Driver, label: str, params: dict[str, str]) -> None:
    cursor = ""
    for _ in range(_PAGES):
        request = driver.request("session/list", {**params, "cursor": cursor} if cursor else params, label=label)
        response = driver.response(request)
        cursor = as_text(at(response, "result.nextCursor"))
        if not cursor:
            return


def _bad_cursor(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.list")
    request = driver.request("session/list", {"cursor": "rewindow-conformance-no-such-cursor"}, label="bad-cursor")
    driver.response(request)


def _delete(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.delete")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    for label in ("delete", "delete-again"):
        request = driver.request("session/delete", {"sessionId": session}, label=label)
        driver.response(request)
    driver.mark("deleted", session)
    _pages(driver, "all", {})


def _close(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.close")
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    driver.mark("cancelled", prompt)
    request = driver.request("session/close", {"sessionId": session}, label="close")
    driver.response(request)
    finish_turn(driver, prompt)
    driver.pause(QUIET)
    other = start_turn(driver, open_session(driver), driver.options.prompt, label="after")
    finish_turn(driver, other)


def _close_idle(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.close")
    request = driver.request("session/close", {"sessionId": open_session(driver)}, label="close")
    driver.response(request)


SCENARIOS: Final = (
    Scenario("three-sessions", "Opens three sessions.", _two),
    Scenario("new-without-cwd", "Asks for sessions without a working directory.", _no_cwd),
    Scenario("new-relative-cwd", "Asks for a session with a relative working directory.", _relative_cwd),
    Scenario("additional-directories", "Opens a session with one more directory.", _more_directories),
    Scenario("load", "Runs turns in a session, loads it, and goes on in it.", _load),
    Scenario("load-after-restart", "Runs a turn, starts the agent anew, and loads the session.", _load_after_restart),
    Scenario("load-unknown", "Loads a session that does not exist.", _load_unknown),
    Scenario("resume", "Runs turns in a session, resumes it, and goes on in it.", _resume),
    Scenario("list", "Lists sessions: all, those of this directory, those of one that nobody uses.", _list),
    Scenario("list-bad-cursor", "Lists sessions from a cursor that nobody gave.", _bad_cursor),
    Scenario("delete", "Deletes a session, twice, and lists those that are left.", _delete),
    Scenario("close", "Closes a session in the middle of a slow turn.", _close, alone=True, tries=3),
    Scenario("close-idle", "Closes a session in which nothing happens.", _close_idle),
)
