"""Secrets in the environment, in configurations of MCP servers, and on command lines."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from engine import HttpServer, McpServer, StdioServer
from engine.core import libpq_files
from engine.core.libpq_files import SYSTEM_FOLDERS
from engine.core.settings import SERVED
from engine.log.secrets import (
    NEVER_SECRET,
    SECRET_NAMES,
    allowed_variables,
    command_line_secrets,
    find_secrets,
    redactor_of,
    server_secrets,
)

VALUE = "a value of some length"
CONFIGURATION = Path(__file__).parents[3] / "docs" / "configuration.md"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "mistral_key", "AWS_SECRET_ACCESS_KEY", "AZURE_APIKEY", "SSH_PRIVATE_KEY", "GITHUB_TOKEN",
        "TOKEN_OF_MINE", "DJANGO_SECRET", "PGPASSWORD", "DB_PASSWD", "A_PASSPHRASE", "SOME_CREDENTIALS", "MYSQL_PWD",
        "FTP_PASS", "NPM_AUTH", "MY_PAT",
    ],
)  # fmt: skip
def test_a_name_that_looks_secret_makes_its_value_one(name: str) -> None:
    found = find_secrets({name: VALUE})
    assert found.values == (VALUE,)
    assert found.names == (name,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", VALUE), ("OLDPWD", VALUE), ("SSH_ASKPASS", VALUE), ("SUDO_ASKPASS", VALUE), ("PATH", VALUE),
        ("AUTHOR", VALUE), ("COMPASS", VALUE), ("KEYBOARD_LAYOUT", VALUE), ("MONKEY", VALUE), ("PATTERN", VALUE),
        ("SSH_AUTH_SOCK", str(CONFIGURATION)), ("GITHUB_TOKEN", ""),
    ],
)  # fmt: skip
def test_what_is_no_secret_is_left_alone(name: str, value: str) -> None:
    assert find_secrets({name: value}) == find_secrets({})


def test_a_relative_path_is_a_secret_because_directories_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "statement").touch()
    monkeypatch.chdir(tmp_path)
    assert find_secrets({"SECRET_KEY": "statement"}).values == ("statement",)


def test_only_the_password_of_a_url_is_secret() -> None:
    found = find_secrets(
        {"DATABASE_URL": "postgres://me:p%40ss:word-1@db.example/x", "HOME_PAGE": "https://a.example/b"}
    )
    assert set(found.values) == {"p%40ss:word-1", "p@ss:word-1"}
    assert found.names == ("DATABASE_URL",)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MAIL", "smtp://me@mail.example:word-of-mine@host", "word-of-mine"),
        ("MAIL", "smtp://me:word@of-mine@host", "word@of-mine"),
        ("HTTP_PROXY", "me:word-of-mine@proxy.example:3128", "word-of-mine"),
        ("API_KEY", "'word-of-mine-9'", "word-of-mine-9"),
        ("AUTH_HEADER", "Bearer word-of-mine-9", "word-of-mine-9"),
        ("PRIVATE_KEY", "-----BEGIN-----\\nword-of-mine-9\\n", "-----BEGIN-----\nword-of-mine-9"),
        ("ACCOUNT_CREDENTIALS", '{"private_key": "word-of-mine-9", "type": "account"}', "word-of-mine-9"),
    ],
)
def test_what_programs_use_of_a_value_is_secret_by_itself(name: str, value: str, secret: str) -> None:
    assert secret in find_secrets({name: value}).values
    assert name not in allowed_variables({name: value})


def test_too_short_values_are_named_but_not_removed() -> None:
    values = {"A_TOKEN": "1234567\n", "B_TOKEN": "12345678", "C_URL": "ftp://me:word@host", "D_TOKEN": " " * 8}
    found = find_secrets(values)
    assert found.values == ("12345678",)
    assert found.short == ("A_TOKEN", "C_URL")
    assert found.names == ("A_TOKEN", "B_TOKEN", "C_URL", "D_TOKEN")


def test_further_names_come_from_the_configuration() -> None:
    environ = {"ACME_LICENSE": VALUE, "XDG_PIN": VALUE}
    assert find_secrets(environ).values == ()
    assert find_secrets(environ, ("ACME_*", "*_pin")).names == ("ACME_LICENSE", "XDG_PIN")
    assert allowed_variables(environ, ("*_PIN",)) == {}


def test_the_configuration_takes_names_out_of_those_that_look_secret() -> None:
    environ = {"SORT_KEY": "created_at", "API_KEY": VALUE}
    assert find_secrets(environ).words == ("SORT_KEY",)
    assert find_secrets(environ).names == ("API_KEY", "SORT_KEY")
    exempt = find_secrets(environ, ("!sort_*", "ACME_*"))
    assert (exempt.names, exempt.words, exempt.values) == (("API_KEY",), (), (VALUE,))


@pytest.mark.parametrize("value", ["created_at", "password", "POSTGRES", "Statement", "correct-horse-battery"])
def test_a_value_that_reads_like_a_word_is_named(value: str) -> None:
    assert find_secrets({"A_TOKEN": value}).words == ("A_TOKEN",)


@pytest.mark.parametrize("value", ["short", "sk-12345678", "aB3dE6gH9", "created at", "createdAt"])
def test_a_value_that_does_not_is_not(value: str) -> None:
    assert find_secrets({"A_TOKEN": value}).words == ()


def test_every_pattern_is_documented() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    assert not [pattern for pattern in (*SECRET_NAMES, *NEVER_SECRET) if f"`{pattern}`" not in text]


def test_statements_see_allowed_variables_only_and_no_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_CONFIG_HOME": "/c",
        "VIRTUAL_ENV": "/v",
        "OPENAI_API_KEY": "sk-12345678",
        "LC_ALIAS": "sk-12345678",
        "XDG_SECRET": "s",
        "LC_TOKEN": "t",
        "HTTPS_PROXY": "http://user:word@proxy",
        "HTTP_PROXY": "http://proxy",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/y",
        "SOMETHING": "else",
    }
    assert set(allowed_variables(environ)) == {"PATH", "LC_ALL", "XDG_CONFIG_HOME", "VIRTUAL_ENV", "HTTP_PROXY"}


def test_a_long_value_is_looked_through_at_once() -> None:
    begun = time.monotonic()
    for value in ("a" * 1_000_000, "a.b-" * 250_000, "://" + "a" * 1_000_000):
        assert find_secrets({"X": value}).values == ()
    assert time.monotonic() - begun < 2


TOKEN = "Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iX="


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DOCKER_AUTH_CONFIG", f'{{"auths": {{"ghcr.io": {{"auth": "{TOKEN}"}}}}}}'),
        ("MY_SECRET", f'{{"db": [{{"password": "{TOKEN}"}}]}}'),
        ("MY_SECRET", f'{{"tokens": ["{TOKEN}"]}}'),
        ("API_TOKENS", f'["{TOKEN}", "other"]'),
        ("API_TOKENS", f"{TOKEN},other-value"),
        ("API_TOKENS", f"{TOKEN} other-value"),
        ("X_AUTH", f"user:realm:{TOKEN}"),
        ("X_AUTH", f"ApiKey {TOKEN}"),
        ("DB_SECRET", f"Server=db;User=sa;Password={TOKEN}"),
        ("DB_SECRET", "Server=db;User=sa;Password=pass.word"),
        ("AZURE_STORAGE_KEY", f"DefaultEndpointsProtocol=https;AccountKey={TOKEN};EndpointSuffix=core.windows.net"),
        ("APP_SECRETS", f"A=1\nDB='{TOKEN}'\nC=2"),
        ("A_URL", f"https://example.org/#access_token={TOKEN}"),
    ],
)
def test_a_key_inside_of_a_value_is_secret_alone(name: str, value: str) -> None:
    found = find_secrets({name: value}).values
    assert (TOKEN if TOKEN in value else "pass.word") in found
    assert not {"core.windows.net", "other-value", "DefaultEndpointsProtocol=https"} & {*found}


SERVER_VALUE = "a1b2c3d4e5f6"


def of_program(*args: str, **env: str) -> StdioServer:
    return StdioServer(name="s", command="c", args=args, env=env)


def behind(url: str = "https://example.org/mcp", **headers: str) -> HttpServer:
    return HttpServer(name="s", url=url, headers=headers)


@pytest.mark.parametrize(
    "server",
    [
        of_program(ANYTHING=SERVER_VALUE),
        of_program(HEADERS=f'{{"Authorization": "Bearer {SERVER_VALUE}"}}'),
        of_program("--api-key", SERVER_VALUE),
        of_program(f"--access-token={SERVER_VALUE}"),
        of_program("mcp-remote", "https://example.org/sse", "--header", f"Authorization: Bearer {SERVER_VALUE}"),
        of_program("mcp-remote", f"--header=X-Api-Key: {SERVER_VALUE}"),
        of_program("run", "-i", "-e", f"ANYTHING={SERVER_VALUE}", "image"),
        of_program("run", f"--env=GITHUB_TOKEN={SERVER_VALUE}", "image"),
        of_program("env", f"API_KEY={SERVER_VALUE}", "server"),
        of_program("-c", f"API_KEY={SERVER_VALUE} exec server"),
        of_program("-c", f"server --token {SERVER_VALUE}|tee log"),
        of_program("-c", f"(TOKEN={SERVER_VALUE} server)&"),
        of_program("--connection-string", f"Server=db;User=me;Password={SERVER_VALUE}"),
        of_program(f"a=1,token={SERVER_VALUE}"),
        of_program("--token", SERVER_VALUE, "--token", "z9y8x7w6v5u4"),
        of_program("--token", "z9y8x7w6v5u4", "--token", SERVER_VALUE),
        of_program(f"postgresql://me:{SERVER_VALUE}@db/x"),
        of_program("mcp-remote", f"https://example.org/sse?api_key={SERVER_VALUE}"),
        of_program("--config", f'{{"apiKey": "{SERVER_VALUE}"}}'),
        of_program(DATABASE_URL=f"postgres://me:{SERVER_VALUE}@db/x"),
        of_program(CONNECTION=f"Server=db;User=sa;Password={SERVER_VALUE}"),
        behind(Cookie=f"sid={SERVER_VALUE}"),
        behind(**{"X-Auth": f"user:{SERVER_VALUE}"}),
        behind(Authorization=f"Bearer {SERVER_VALUE}"),
        behind(**{"X-Anything": SERVER_VALUE}),
        behind(f"https://user:{SERVER_VALUE}@example.org/mcp"),
        behind(f"https://example.org/mcp?api_key={SERVER_VALUE}"),
        behind(f"https://example.org/mcp#access_token={SERVER_VALUE}"),
    ],
)
def test_what_a_server_is_given_is_secret(server: McpServer) -> None:
    assert SERVER_VALUE in server_secrets(server, {})


@pytest.mark.parametrize("key", ["/q7RkW3xYb9TfLm2", "/q7/RkW3xYb9TfLm2=", "q7RkW3xY/b9TfLm2"])
@pytest.mark.parametrize("form", ["{}", "Bearer {}", "sid={}"])
def test_a_key_with_slashes_is_no_path(key: str, form: str) -> None:
    for name in ("X-Api-Key", "Authorization", "Cookie"):
        assert key in server_secrets(behind(**{name: form.format(key)}), {})
    assert key in find_secrets({"API_KEYS": f"{key},abc"}).values
    assert key in find_secrets({"DATABASE_PASSWORD": f"Server=x;Password={key}"}).values


@pytest.mark.parametrize("address", ["http://me:pa/ss4711@proxy:3128", "me:pa/ss4711@proxy:3128"])
def test_the_password_of_a_proxy_may_have_a_slash(address: str) -> None:
    assert "pa/ss4711" in find_secrets({"HTTPS_PROXY": address}).values
    assert allowed_variables({"HTTPS_PROXY": address}) == {}
    assert allowed_variables({"HTTPS_PROXY": "http://proxy/?token=a1b2c3d4"}) == {}
    assert allowed_variables({"HTTPS_PROXY": "http://proxy:3128/"}) == {"HTTPS_PROXY": "http://proxy:3128/"}


def test_secret_name_wins_over_a_plain_one() -> None:
    assert SERVER_VALUE in server_secrets(of_program(GITHUB_TOKEN=SERVER_VALUE), {"GH": SERVER_VALUE})


def test_a_key_in_the_path_of_a_url_is_secret() -> None:
    assert "s3cr3t-zap-4711-abcdefgh" in server_secrets(behind("https://example.org/s/s3cr3t-zap-4711-abcdefgh"), {})


@pytest.mark.parametrize(
    "server",
    [
        of_program(SHORT="abc1234"),
        of_program(LEVEL="verbose-debug"),
        of_program(FOLDER="/srv/data/a1b2c3d4"),
        of_program(HOME_LIKE="~/a1b2c3d4e5"),
        of_program(IN_CONTAINER="/projects"),
        of_program(OF_API="/api/v1/"),
        of_program(ELSEWHERE="/Users/ann/MyProject2/data"),
        of_program(SAME=SERVER_VALUE),
        of_program(BROKEN="{"),
        of_program("--directory", SERVER_VALUE, "--verbose", SERVER_VALUE),
        behind(Accept="application/json; q=0.9"),
        behind("https://example.org/mcp?region=a1b2c3d4e5f6"),
    ],
)
def test_what_is_plainly_no_secret_stays(server: McpServer) -> None:
    assert server_secrets(server, {"OWN": SERVER_VALUE}) == []


COMMAND_VALUE = "a1b2c3d4e5f6"


@pytest.mark.parametrize(
    "words",
    [
        ("agent", "--api-key", COMMAND_VALUE),
        ("env", f"API_KEY={COMMAND_VALUE}", "agent"),
        ("agent", "-c", f"model.api_key={COMMAND_VALUE}"),
        ("client", f"https://example.org/mcp#access_token={COMMAND_VALUE}"),
        ("client", "--header", f"Authorization: Bearer {COMMAND_VALUE}"),
        ("client", "-H", f"X-Route: {COMMAND_VALUE}"),
        ("agent", f'{{"servers": [{{"headers": {{"api_key": "{COMMAND_VALUE}"}}}}]}}'),
    ],
)
def test_values_whose_names_look_secret_are_found(words: tuple[str, ...]) -> None:
    assert COMMAND_VALUE in command_line_secrets(words, {})


def test_other_words_are_none() -> None:
    assert command_line_secrets(("agent", "--name", COMMAND_VALUE, f"colour={COMMAND_VALUE}"), {}) == []


def test_passwords_in_the_parameters_of_a_url_are_secret() -> None:
    found = find_secrets(
        {
            "STORE": "postgresql://me@db/x?sslmode=require&p%61ssword=Mm18%2FQw7x&sslpassword=tEz5hGdS8a",
            "NO_URL": "a?password=notHidden1",
        }
    )
    assert set(found.values) == {"Mm18%2FQw7x", "Mm18/Qw7x", "tEz5hGdS8a"}


def test_without_a_home_libpq_reads_that_of_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((*account[:5], str(tmp_path), account[6])))
    (tmp_path / ".pgpass").write_text("db:5432:*:me:tEz5hGdS8a\n")
    assert redactor_of({}).redact("tEz5hGdS8a") == "***"


def test_services_of_the_system_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libpq_files, "SYSTEM_FOLDERS", (str(tmp_path),))
    (tmp_path / "pg_service.conf").write_text("[work]\npassword=tEz5hGdS8a\n")
    assert redactor_of({"HOME": "/nowhere"}).redact("tEz5hGdS8a") == "***"
    assert "/etc/postgresql-common" in SYSTEM_FOLDERS, "the place of the wheel of psycopg"


def test_passwords_that_libpq_reads_from_files_are_secret(tmp_path: Path) -> None:
    (tmp_path / ".pgpass").write_text("# host:1:d:u:noPassword1\ndb:5432:*:me:Mm18\\:Qw7xLk\n")
    (tmp_path / "service").write_text("[work]\nhost=db\npassword=tEz5hGdS8a\n")
    redactor = redactor_of({"HOME": str(tmp_path), "PGSERVICEFILE": str(tmp_path / "service")})
    text = "noPassword1 Mm18\\:Qw7xLk Mm18:Qw7xLk tEz5hGdS8a"
    assert redactor.redact(text) == "noPassword1 *** *** ***"
    assert redactor_of({"HOME": str(tmp_path / "none")}).redact(text) == text


@pytest.mark.parametrize(
    ("files", "environ"),
    [
        ({".pgpass": "db:5432:x:me:KEY:comment\n"}, {}),
        ({"pw": "db:5432:x:me:KEY\n"}, {"REWINDOW_STORE": "postgresql://me@db/x?sslmode=require&passfile=%2FHOME/pw"}),
        ({"s": "[a]\npassword=KEY\n"}, {"REWINDOW_STORE": "postgresql:///x?service=a&servicefile=/HOME/s"}),
        ({".pg_service.conf": "[a]\n \t password=KEY\t\n"}, {}),
        ({".pg_service.conf": "[a]\nsslpassword=KEY\n"}, {}),
        ({".pg_service.conf": "[a]\noauth_client_secret=KEY\n"}, {}),
        ({"pg_service.conf": "[a]\npassword=KEY\n"}, {"PGSYSCONFDIR": "/HOME"}),
        ({".pg_service.conf": "[a]\npassfile=/HOME/pw\n", "pw": "*:*:*:*:KEY"}, {}),
    ],
)
def test_a_password_in_any_file_of_libpq_is_secret(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str]
) -> None:
    home = str(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("/HOME", home).replace("KEY", "tEz5hGdS8a"))
    named = {name: value.replace("%2FHOME", home).replace("/HOME", home) for name, value in environ.items()}
    assert redactor_of({"HOME": home, **named}).redact("it is tEz5hGdS8a.") == "it is ***."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=production,api-key=tEz5hGdS8a"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "content-type=application/x1,Authorization=Bearer%20tEz5hGdS8a"),
        ("REGISTRY_AUTH", "user:tEz5hGdS8a"),
        ("SESSION_AUTH", "token=tEz5hGdS8a"),
        ("HTTP_AUTH", "Authorization: Bearer tEz5hGdS8a"),
    ],
)
def test_the_named_part_of_a_secret_is_secret(name: str, value: str) -> None:
    redactor = redactor_of({name: value})
    assert redactor.redact("it is tEz5hGdS8a.") == "it is ***."
    assert redactor.redact("the user, production, application/x1") == "the user, production, application/x1"


@pytest.mark.parametrize("value", ["user:short", "user:production", "https://host.example/a1b2c3d4", "a1b2c3=="])
def test_an_ordinary_part_of_a_secret_is_none(value: str) -> None:
    assert find_secrets({"REGISTRY_AUTH": value}).values == (value,)


@pytest.mark.parametrize(("served", "shown"), [({}, "a very-x"), ({SERVED: "1"}, "a ")])
def test_the_users_of_a_server_do_not_see_what_waits_for_its_keys(served: dict[str, str], shown: str) -> None:
    redactor = redactor_of({"SOME_API_KEY": "very-secret-7", "HOME": "/nowhere", **served})
    assert redactor.redact_piece("a very-s")[0] == "a "
    assert redactor.redact_piece("a very-x")[0] == shown
