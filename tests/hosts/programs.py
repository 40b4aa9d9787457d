"""The hosts: how each is told of our server and of the LLM's, and what its model is told of our tools and replies."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tests.support.node import node

MODULES: Final = Path(__file__).parent / "node_modules"
KEY: Final = "sk-test-key"


class Start(NamedTuple):
    """A command, with what is particular to the host in its environment."""

    command: Sequence[str]
    variables: Mapping[str, str]


class Host(Protocol):
    """One program."""

    client: str
    """As `--print-config` names it."""

    def start(self, printed: str, home: Path, url: str) -> Start:
        """How it is started with what `--print-config` printed, where the LLM server is at `url`."""
        ...

    def tool(self, name: str) -> str:
        """What its model calls a tool of ours."""
        ...

    def listed(self, body: Mapping[str, Any]) -> list[str]:
        """Our tools of which a request tells the model all, by our names."""
        ...

    def replies(self, body: Mapping[str, Any]) -> list[str]:
        """The texts of our replies in a request."""
        ...

    def respell(self, answer: bytes) -> bytes:
        """What the LLM server answered, as this host has it."""
        ...


class _OfAnthropic:
    """What hosts that speak the API of Anthropic have in common."""

    prefix = "rewindow"

    def tool(self, name: str) -> str:
        return f"{self.prefix}__{name}"

    def listed(self, body: Mapping[str, Any]) -> list[str]:
        start = self.tool("")
        return [tool["name"].removeprefix(start) for tool in body.get("tools", ()) if tool["name"].startswith(start)]

    def replies(self, body: Mapping[str, Any]) -> list[str]:
        return [_text(part["content"]) for part in _parts(body) if part["type"] == "tool_result"]

    def respell(self, answer: bytes) -> bytes:
        return answer


def _parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in body["messages"]:
        if not isinstance(message["content"], str):
            yield from message["content"]


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    (block,) = content
    return block["text"]


class ClaudeCode(_OfAnthropic):
    client = "claude"
    prefix = "mcp__rewindow"

    def start(self, printed: str, home: Path, url: str) -> Start:
        config = home / "mcp.json"
        config.write_text(printed)
        command = [str(MODULES / ".bin" / "claude"), "-p", "Go on.", "--mcp-config", str(config), "--strict-mcp-config"]
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return Start(
            [*command, "--allowedTools", "mcp__rewindow"],
            {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **quiet},
        )


class Goose(_OfAnthropic):
    client = "goose"

    def start(self, printed: str, home: Path, url: str) -> Start:
        config = home / ".config" / "goose" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(printed)
        return self._run(url)

    def _run(self, url: str, *options: str) -> Start:
        binary = MODULES / "@aaif" / "goose-binary-linux-x64" / "bin" / "goose"
        quiet = {"GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false", "GOOSE_MODE": "auto"}
        model = {"GOOSE_PROVIDER": "anthropic", "GOOSE_MODEL": "claude-sonnet-4-5"}
        return Start(
            [str(binary), "run", "--no-session", "--text", "Go on.", *options],
            {"ANTHROPIC_HOST": url, "ANTHROPIC_API_KEY": KEY, **model, **quiet},
        )


class GooseByOption(Goose):
    """With the command on its command line."""

    prefix = "rewindow-mcp"

    def start(self, printed: str, home: Path, url: str) -> Start:
        del home
        entry = {name: json.loads(text) for name, text in re.findall(r"^    (cmd|args): (.*)$", printed, re.MULTILINE)}
        return self._run(url, "--with-extension", shlex.join([entry["cmd"], *entry["args"]]))


class Codex:
    client = "codex"

    def start(self, printed: str, home: Path, url: str) -> Start:
        return self._run(home, url, printed)

    def _run(self, home: Path, url: str, more: str = "", *options: str) -> Start:
        config = home / ".codex" / "config.toml"
        config.parent.mkdir()
        model = (
            f'[model_providers.mock]\nname = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
        )
        config.write_text(f'model = "gpt-5"\nmodel_provider = "mock"\n{model}{more}')
        command = [str(MODULES / ".bin" / "codex"), "exec", "--strict-config", "--skip-git-repo-check", *options]
        return Start([*command, "Go on."], {"KEY": KEY})

    def tool(self, name: str) -> str:
        return f"mcp__rewindow__{name}"

    def listed(self, body: Mapping[str, Any]) -> list[str]:
        ours = (tool for tool in body["tools"] if tool.get("name") == "mcp__rewindow")
        return [tool["name"] for space in ours for tool in space["tools"]]

    def replies(self, body: Mapping[str, Any]) -> list[str]:
        # It has a block of its own ahead of a reply: how long that took.
        outputs = [item["output"] for item in body["input"] if item["type"] == "function_call_output"]
        return [output[-1]["text"] for output in outputs]

    def respell(self, answer: bytes) -> bytes:
        return answer.replace(b'"name":"mcp__rewindow__', b'"namespace":"mcp__rewindow","name":"')


class CodexByOption(Codex):
    """With the configuration on its command line."""

    def start(self, printed: str, home: Path, url: str) -> Start:
        entry = tomllib.loads(printed)["mcp_servers"]["rewindow"]
        options = [
            part for name, value in entry.items() for part in ("-c", f"mcp_servers.rewindow.{name}={json.dumps(value)}")
        ]
        return self._run(home, url, "", *options)


class Gemini:
    client = "gemini"

    def start(self, printed: str, home: Path, url: str) -> Start:
        config = home / ".gemini" / "settings.json"
        config.parent.mkdir()
        config.write_text(json.dumps({**json.loads(printed), "security": {"auth": {"selectedType": "gemini-api-key"}}}))
        model = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        return Start(
            [str(MODULES / ".bin" / "gemini"), "--prompt", "Go on.", "--model", "gemini-2.5-pro", "--yolo"], model
        )

    def tool(self, name: str) -> str:
        return f"mcp_rewindow_{name}"

    def listed(self, body: Mapping[str, Any]) -> list[str]:
        start = self.tool("")
        names = [each["name"] for tools in body.get("tools", ()) for each in tools.get("functionDeclarations", ())]
        return [name.removeprefix(start) for name in names if name.startswith(start)]

    def replies(self, body: Mapping[str, Any]) -> list[str]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [_of_gemini(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]

    def respell(self, answer: bytes) -> bytes:
        return answer


def _of_gemini(response: Mapping[str, str]) -> str:
    """Our text, which it marks as that of others, and an error's as the JSON that it came in."""
    if "error" in response:
        (part,) = json.loads(response["error"].partition(" with response: ")[2])
        return _text(part["functionResponse"]["response"]["content"])
    start, end = "<untrusted_context>\n", "\n</untrusted_context>"
    assert response["output"].startswith(start)
    assert response["output"].endswith(end)
    return response["output"].removeprefix(start).removesuffix(end)


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": ClaudeCode(),
    "codex": Codex(),
    "codex -c": CodexByOption(),
    "gemini": Gemini(),
    "goose": Goose(),
    "goose --with-extension": GooseByOption(),
}
PLAIN: Final = ("claude-code", "codex", "gemini", "goose")
"""Of them, one for each configuration."""
PATH: Final = f"{Path(node()).parent}:/usr/bin:/bin"
