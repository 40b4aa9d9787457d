"""Configuration: which place wins, and that a value that cannot be used is named with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acp_adapter.listening.placement import _SERVED_VARIABLE
from engine.core.errors import InvalidRequestError
from engine.core.settings import SERVED, SETTINGS, Setting, given_variables, hidden_names, load_settings

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def environ(tmp_path: Path, config: str = "", **variables: str) -> dict[str, str]:
    if config:
        (tmp_path / "rewindow").mkdir()
        (tmp_path / "rewindow" / "config.toml").write_text(config)
    return {"HOME": "/home/x", "XDG_CONFIG_HOME": str(tmp_path), **variables}


def test_nothing_configured_gives_the_documented_defaults(tmp_path: Path) -> None:
    settings = load_settings(environ(tmp_path))
    assert (settings.model, settings.context_budget, settings.max_rounds) == ("direct", 128_000, 50)
    assert settings.state_dir == Path("/home/x/.local/state/rewindow")


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path: Path) -> None:
    variables = environ(
        tmp_path, "max_rounds = 3\nmodel = 'a'\npython = 'p'", REWINDOW_MAX_ROUNDS="4", REWINDOW_MODEL="b"
    )
    settings = load_settings(variables, {"max_rounds": "5", "model": None})
    assert (settings.max_rounds, settings.model, settings.python) == (5, "b", "p")


OF_USER = """
model = 'a'
store = 'postgresql://ann@ann.example/mine'
tenant = 'bob'
state_dir = '/home/bob'
workspaces = '/work=https://ann.example/x.git'
"""


def test_the_config_file_of_a_servers_user_decides_nothing_of_the_server(tmp_path: Path) -> None:
    variables = environ(tmp_path, OF_USER, **{SERVED: "1", "REWINDOW_TENANT": "ann"})
    settings = load_settings(variables)
    assert (settings.model, settings.store, settings.tenant, settings.workspaces) == ("a", "sqlite", "ann", ())
    assert settings.state_dir == Path("/home/x/.local/state/rewindow")
    del variables[SERVED]
    assert load_settings(variables).store == "postgresql://ann@ann.example/mine"
    assert _SERVED_VARIABLE == SERVED


def test_the_user_of_a_server_adds_secrets_and_takes_none_out(tmp_path: Path) -> None:
    of_user = "hidden_names = ['!OPENAI_API_KEY', 'MINE_*']"
    variables = environ(tmp_path, of_user, **{SERVED: "1", "REWINDOW_HIDDEN_NAMES": "COMPANY_*"})
    for found in (hidden_names(variables), load_settings(variables).hidden_names):
        assert found == ("COMPANY_*", "MINE_*")
    del variables["REWINDOW_HIDDEN_NAMES"]
    assert hidden_names(variables) == load_settings(variables).hidden_names == ("MINE_*",)
    del variables[SERVED]
    assert hidden_names(variables) == ("!OPENAI_API_KEY", "MINE_*")


def test_an_error_in_the_config_file_has_no_control_characters(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        load_settings(environ(tmp_path, '"\\u001b]0;x\\u0007\\nforged" = 1'))
    assert str(refused.value).isprintable()


def test_all_settings_that_are_given_become_variables(tmp_path: Path) -> None:
    config = "model = 'a'\nmax_rounds = 3\nmodels = ['b', 'c']\npython = 'p'"
    given = given_variables(environ(tmp_path, config, REWINDOW_MAX_ROUNDS="4"), {"python": "q", "tenant": None})
    assert given == {
        "REWINDOW_MODEL": "a",
        "REWINDOW_MODELS": "b,c",
        "REWINDOW_PYTHON": "q",
        "REWINDOW_MAX_ROUNDS": "4",
    }


@pytest.mark.parametrize(
    ("config", "variables", "overrides", "named"),
    [
        (
            "",
            {"REWINDOW_MAX_ROUNDS": "many"},
            {},
            "REWINDOW_MAX_ROUNDS has an invalid value 'many': must be a whole number",
        ),
        ("", {"REWINDOW_SUMMARY_TOKENS": "1.5"}, {}, "'1.5': must be a whole number"),
        ("", {}, {"statement_seconds": "long"}, "--statement-seconds has an invalid value 'long': must be a number"),
        (
            "",
            {},
            {"context_budget": "-1"},
            "--context-budget has an invalid value '-1': must be more than 0, and finite",
        ),
        ("", {}, {"statement_seconds": "nan"}, "--statement-seconds has an invalid value 'nan'"),
        ("", {}, {"state_dir": "~nobody-here/x"}, "--state-dir has an invalid value '~nobody-here/x'"),
        ("", {}, {"allow_sudo": "perhaps"}, "--allow-sudo has an invalid value 'perhaps': must be yes or no"),
        ("max_rounds = 0.5", {}, {}, "config.toml"),
        ("colour = 'red'", {}, {}, "sets unknown options: colour"),
        ("= nonsense", {}, {}, "not valid TOML"),
    ],
)
def test_invalid_value_is_reported_with_its_source(
    tmp_path: Path, config: str, variables: dict[str, str], overrides: dict[str, str | None], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(named)):
        load_settings(environ(tmp_path, config, **variables), overrides)


@pytest.mark.parametrize(
    ("text", "value"),
    [("yes", True), ("True", True), ("1", True), (" NO ", False), ("false", False), ("0", False)],
)
def test_yes_and_no_have_other_spellings(tmp_path: Path, text: str, value: bool) -> None:
    assert load_settings(environ(tmp_path, REWINDOW_ALLOW_SUDO=text)).allow_sudo is value


def test_a_config_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "rewindow" / "config.toml").mkdir(parents=True)
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        load_settings(environ(tmp_path))


def test_several_names_may_be_a_list_in_the_config_file(tmp_path: Path) -> None:
    config = "models_without_tools = ['openai:llama*', 'b']\nhidden_names = []\nmodel = 'provider:openai:llama3'"
    settings = load_settings(environ(tmp_path, config))
    assert (settings.models_without_tools, settings.hidden_names) == (("openai:llama*", "b"), ())
    assert not settings.calls_tools(settings.model)


@pytest.mark.parametrize(
    ("names", "model", "calls"),
    [
        ("", "provider:openai:llama3", True),
        ("openai:llama*", "provider:openai:llama3:8b", False),
        ("provider:openai:llama3", "provider:openai:llama3", False),
        ("other, Llama3", "provider:openai:llama3", False),
        ("llama3", "provider:openai:llama3:8b", True),
        ("openai", "provider:openai:llama3", True),
        ("anthropic:*[1m]", "provider:anthropic:claude[1m]", False),
        ("anthropic:*[1m]", "provider:anthropic:claude1", True),
        ("*", "scripted:replies.jsonl", False),
        ("replies.jsonl", "scripted:replies.jsonl", True),
    ],
)
def test_a_model_that_is_named_as_without_tools_calls_none(tmp_path: Path, names: str, model: str, calls: bool) -> None:
    assert load_settings(environ(tmp_path), {"models_without_tools": names}).calls_tools(model) is calls


@pytest.mark.parametrize("option", SETTINGS, ids=lambda option: option.name)
def test_every_option_is_documented_with_its_variable(option: Setting) -> None:
    text = DOCUMENT.read_text()
    assert f"| `{option.name}` | `{option.variable}` |" in text


def test_names_to_hide_are_known_though_another_setting_is_wrong(tmp_path: Path) -> None:
    """What is hidden must not depend on what is wrong elsewhere."""
    file = tmp_path / "rewindow/config.toml"
    file.parent.mkdir()
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    file.write_text('hidden_names = ["COMPANY_*"]\nmax_rounds = "lots"\nnonsense = 1\n')
    assert hidden_names(environ) == ("COMPANY_*",)
    assert hidden_names({**environ, "REWINDOW_HIDDEN_NAMES": "OTHER", "REWINDOW_MAX_ROUNDS": "x"}) == ("OTHER",)
    file.write_text("no TOML")
    assert hidden_names(environ) == ()


def test_an_address_with_a_password_is_taken_from_the_environment_alone(tmp_path: Path) -> None:
    address, config = "postgresql://me:word-1@db/x", tmp_path / "rewindow" / "config.toml"
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load_settings({**environ, "REWINDOW_STORE": address}).store == address
    with pytest.raises(InvalidRequestError, match=r"^--store has a password"):
        load_settings(environ, {"store": address})
    config.parent.mkdir()
    config.write_text(f'store = "{address}"')
    with pytest.raises(InvalidRequestError, match=r"config\.toml has a password"):
        load_settings(environ)


@pytest.mark.parametrize("value", ["word-1", "postgresql://me:wo@word-1@db/x"])
def test_no_error_quotes_an_invalid_store(value: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        load_settings({"REWINDOW_STORE": value})
    assert "word-1" not in str(caught.value)
