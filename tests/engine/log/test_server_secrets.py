"""What an MCP server is given is taken out of texts, whatever it is called; what is plainly no secret is not."""

from __future__ import annotations

import pytest

from engine import HttpServer, McpServer, StdioServer
from engine.log.secrets import server_secrets

VALUE = "a1b2c3d4e5f6"


def of_program(*args: str, **env: str) -> StdioServer:
    return StdioServer(name="s", command="c", args=args, env=env)


def behind(url: str = "https://example.org/mcp", **headers: str) -> HttpServer:
    return HttpServer(name="s", url=url, headers=headers)


@pytest.mark.parametrize(
    "server",
    [
        of_program(ANYTHING=VALUE),
        of_program(HEADERS=f'{{"Authorization": "Bearer {VALUE}"}}'),
        of_program("--api-key", VALUE),
        of_program(f"--access-token={VALUE}"),
        behind(Authorization=f"Bearer {VALUE}"),
        behind(**{"X-Anything": VALUE}),
        behind(f"https://user:{VALUE}@example.org/mcp"),
        behind(f"https://example.org/mcp?api_key={VALUE}"),
        behind(f"https://example.org/mcp#access_token={VALUE}"),
    ],
)
def test_what_a_server_is_given_is_secret(server: McpServer) -> None:
    assert VALUE in server_secrets(server, {})


def test_what_a_name_calls_secret_is_so_though_the_environment_has_it_by_another() -> None:
    assert VALUE in server_secrets(of_program(GITHUB_TOKEN=VALUE), {"GH": VALUE})


def test_a_key_in_the_path_of_a_url_is_secret() -> None:
    assert "s3cr3t-zap-4711-abcdefgh" in server_secrets(behind("https://example.org/s/s3cr3t-zap-4711-abcdefgh"), {})


@pytest.mark.parametrize(
    "server",
    [
        of_program(SHORT="abc1234"),
        of_program(LEVEL="verbose-debug"),
        of_program(FOLDER="/srv/data/a1b2c3d4"),
        of_program(HOME_LIKE="~/a1b2c3d4e5"),
        of_program(SAME=VALUE),
        of_program(BROKEN="{"),
        of_program("--directory", VALUE, "--verbose", VALUE),
        behind(Accept="application/json; q=0.9"),
        behind("https://example.org/mcp?region=a1b2c3d4e5f6"),
    ],
)
def test_what_is_plainly_no_secret_stays(server: McpServer) -> None:
    assert server_secrets(server, {"OWN": VALUE}) == []
