"""The clients that take the tour: one as Zed is, those of both SDKs, and acpx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from acp_adapter.sign_in import SIGN_IN
from tests.support import acp_sdk as acp
from tests.support.acpx import Acpx
from tests.support.acpx import opened as opened_acpx
from tests.support.agents import AGENT, Agent
from tests.support.drivers import Driver
from tests.support.fake_editor import READ, WRITE, FakeEditor
from tests.support.node import own_command
from tests.support.terminal import ENTER, Terminal
from tests.support.tour import KEY, Surroundings, Turn

SECONDS: Final = 60.0
CAPABILITIES: Final = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}
"""What Zed declares."""
_NOT_OPEN: Final = (-32002, "not open")
_REWINDOW: Final = str(Path(sys.executable).parent / "rewindow")
_PROVIDER: Final = ("Enter to finish", "anthropic")
_ITS_KEY: Final = ("Key of anthropic", KEY)


def _type_key(command: Sequence[str], place: Surroundings, *dialogue: tuple[str, str]) -> None:
    """Answers the questions of a command in a terminal, in order."""
    variables = {**os.environ, **place.environ, "TERM": "xterm"}
    with Terminal(command, variables, str(place.project), columns=160) as terminal:
        for question, answer in dialogue:
            terminal.until(question, seconds=SECONDS)
            terminal.type(f"{answer}{ENTER}")
        assert terminal.process.wait(SECONDS) == 0


def _set_up(command: Sequence[str], place: Surroundings) -> None:
    _type_key(command, place, _PROVIDER, _ITS_KEY, ("Stored the key", ""))


def _remove_key(place: Surroundings) -> None:
    command = [_REWINDOW, "auth", "remove", "anthropic"]
    subprocess.run(command, env={**os.environ, **place.environ}, check=True, timeout=SECONDS, capture_output=True)


# --- Zed -----------------------------------------------------------------------------------------------------------


class Zed:
    """Does what Zed does, and shows its terminal as `_meta` says."""

    def __init__(self, agent: Agent, place: Surroundings) -> None:
        self._agent = agent
        self._place = place
        self._terminal = agent.initialize(**CAPABILITIES)["authMethods"][0]["_meta"]["terminal-auth"]
        self._session = agent.new_session(place.project / "app")

    def prompt(self, text: str) -> Turn:
        before = len(self._agent.updates())
        answer = self._agent.response(self._agent.begin_prompt(self._session, text), SECONDS)
        return Turn(answer.get("result", {}).get("stopReason"), self._agent.updates()[before:])

    def choose(self, option: str, value: str) -> None:
        params = {"sessionId": self._session, "configId": option, "value": value}
        self._agent.call("session/set_config_option", params)

    def authenticate(self) -> None:
        _set_up([self._terminal["command"], *self._terminal["args"]], self._place)
        assert self._agent.call("authenticate", {"methodId": SIGN_IN}) == {}

    def logout(self) -> None:
        assert self._agent.call("logout", {}) == {}

    def seen(self) -> str:
        return str(self._agent.received) + self._agent.stderr.decode()


@contextmanager
def zed(place: Surroundings) -> Iterator[Zed]:
    with Agent(place.folder / "state", env=place.environ) as agent:
        agent.editor = FakeEditor()
        agent.editor.refusals = dict.fromkeys((READ, WRITE), _NOT_OPEN[0])
        yield Zed(agent, place)


# --- the Python SDK ------------------------------------------------------------------------------------------------


class _Editor:
    """The SDK's side of the user."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        chosen = next(option.option_id for option in options if option.kind == "allow_once")
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return acp.schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, path: str, session_id: str, **_: Any) -> Any:
        raise acp.RequestError(*_NOT_OPEN)

    async def write_text_file(self, content: str, path: str, session_id: str, **_: Any) -> Any:
        raise acp.RequestError(*_NOT_OPEN)


class PythonSdk:
    """The Python SDK's client. It cannot log out, so the user removes the key."""

    def __init__(self, portal: BlockingPortal, agent: Any, editor: _Editor, place: Surroundings) -> None:
        self._portal = portal
        self._agent = agent
        self._editor = editor
        self._place = place
        self._errors: list[str] = []
        capabilities = acp.schema.ClientCapabilities.model_validate(CAPABILITIES)
        hello = self._call(agent.initialize, protocol_version=1, client_capabilities=capabilities)
        (self._terminal,) = (each for each in hello.auth_methods if isinstance(each, acp.schema.TerminalAuthMethod))
        session = self._call(agent.new_session, cwd=str(place.project / "app"), mcp_servers=[])
        self._session: str = session.session_id

    def _call(self, method: Callable[..., Awaitable[Any]], **params: Any) -> Any:
        async def bounded() -> Any:
            with anyio.fail_after(SECONDS):
                return await method(**params)

        return self._portal.call(bounded)

    def prompt(self, text: str) -> Turn:
        before = len(self._editor.updates)
        content = [acp.text_block(text)]
        try:
            stop: str | None = self._call(self._agent.prompt, session_id=self._session, prompt=content).stop_reason
        except acp.RequestError as error:
            self._errors.append(str(error))
            stop = None
        return Turn(stop, self._editor.updates[before:])

    def choose(self, option: str, value: str) -> None:
        self._call(self._agent.set_config_option, config_id=option, session_id=self._session, value=value)

    def authenticate(self) -> None:
        _set_up([str(AGENT), *self._terminal.args], self._place)
        self._call(self._agent.authenticate, method_id=SIGN_IN)

    def logout(self) -> None:
        _remove_key(self._place)

    def seen(self) -> str:
        return f"{self._editor.updates}{self._errors}{_stderr(self._place).read_text()}"


def _stderr(place: Surroundings) -> Path:
    return place.folder / "stderr"


@contextmanager
def python_sdk(place: Surroundings) -> Iterator[PythonSdk]:
    editor = _Editor()
    with _stderr(place).open("wb") as stderr, start_blocking_portal() as portal:
        spawned = portal.call(
            partial(
                acp.spawn_agent_process,
                editor,
                str(AGENT),
                env={**os.environ, **place.environ},
                transport_kwargs={"stderr": stderr},
            )
        )
        with portal.wrap_async_context_manager(spawned) as (agent, _):
            yield PythonSdk(portal, agent, editor, place)


# --- the TypeScript SDK --------------------------------------------------------------------------------------------


class TypeScriptSdk:
    """The TypeScript SDK's client, in a program of its own."""

    def __init__(self, driver: Driver, place: Surroundings) -> None:
        self._driver = driver
        self._place = place
        self._errors: list[str] = []
        methods = driver.introduced()["authMethods"]
        (self._terminal,) = (each for each in methods if each.get("type") == "terminal")

    def _call(self, method: str, **params: str) -> dict[str, Any]:
        answer = self._driver.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def prompt(self, text: str) -> Turn:
        before = len(self._driver.heard)
        answer = self._driver.ask("prompt", {"text": text})
        if "error" in answer:
            self._errors.append(answer["error"]["message"])
        return Turn(answer.get("result", {}).get("stopReason"), self._driver.heard[before:])

    def choose(self, option: str, value: str) -> None:
        self._call("choose", configId=option, value=value)

    def authenticate(self) -> None:
        _set_up([str(AGENT), *self._terminal["args"]], self._place)
        self._call("authenticate", methodId=SIGN_IN)

    def logout(self) -> None:
        self._call("logout")

    def seen(self) -> str:
        return f"{self._driver.heard}{self._errors}{_stderr(self._place).read_text()}"


@contextmanager
def typescript_sdk(place: Surroundings) -> Iterator[TypeScriptSdk]:
    start = {"command": str(AGENT), "cwd": str(place.project / "app"), "capabilities": CAPABILITIES}
    command = own_command("acp_drivers/sdk.mjs")
    with (
        _stderr(place).open("wb") as stderr,
        Driver(command, start, {**os.environ, **place.environ}, stderr) as driver,
    ):
        yield TypeScriptSdk(driver, place)


# --- acpx ----------------------------------------------------------------------------------------------------------


class AcpxOnTour:
    """acpx. It offers no terminal to sign in and no logout, so the user stores and removes the key."""

    FAILED: Final = 1
    """Its exit code where a prompt ended in an error."""

    def __init__(self, acpx: Acpx, place: Surroundings) -> None:
        self._acpx = acpx
        self._place = place
        self._messages: list[dict[str, Any]] = []
        acpx.run("sessions", "new")

    def prompt(self, text: str) -> Turn:
        code, messages = self._acpx.ended("--approve-all", "prompt", text)
        self._messages += messages
        assert code in (0, self.FAILED)
        updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
        last = messages[-1]
        assert ("error" in last) == (code == self.FAILED), last
        return Turn(last.get("result", {}).get("stopReason"), updates)

    def choose(self, option: str, value: str) -> None:
        self._messages += self._acpx.messages("set", option, value)

    def authenticate(self) -> None:
        _type_key([_REWINDOW, "auth", "add", "anthropic"], self._place, _ITS_KEY)

    def logout(self) -> None:
        _remove_key(self._place)

    def seen(self) -> str:
        return json.dumps(self._messages)


@contextmanager
def acpx(place: Surroundings) -> Iterator[AcpxOnTour]:
    with opened_acpx(place.folder, env=place.environ, work=place.project / "app") as client:
        yield AcpxOnTour(client, place)
