"""`rewindow-acp --listen` and `rewindow-acp tokens`: who may connect, and the start of the server.

Called by the command line of the agent. Loads the server only to serve.
"""

from __future__ import annotations

import argparse
import getpass
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from acp_adapter.listening.users import FILE_NAME, Token, TokenFile, User, UsersError
from engine import Settings, load_settings
from engine.core.errors import InvalidRequestError
from engine.core.installation import extra_command
from engine.core.settings import given_variables
from engine.core.web_access import LOOPBACK, Names
from engine.runtime.ray_cluster import LOCAL_CLUSTER, authenticate, check_installed
from engine.runtime.system.addresses import AddressError, parsed_address

if TYPE_CHECKING:  # only to serve
    from acp_adapter.listening.placement import Placement

EXTRA: Final = "server"
_PACKAGE: Final = "hypercorn"
_MIB: Final = 1 << 20
TOKENS: Final = "tokens"
DESCRIPTION: Final = """\
The tokens of clients that connect to `rewindow-acp --listen`. A token names its user. The file keeps only digests.
"""
EXAMPLES: Final = """\
examples:
  rewindow-acp tokens add ann          print a new token for ann, whose agent runs under the account ann
  rewindow-acp tokens list
  rewindow-acp tokens revoke 4fd3c1a0  end the connections that use this token
  rewindow-acp tokens revoke ann       end ann's agent, too
"""
NONE_YET: Final = "there are no tokens in {path}; add one with `rewindow-acp tokens add USER`"
NO_ENCRYPTION: Final = (
    "rewindow-acp: other machines can reach {host}, and tokens are sent without encryption; use --tls-cert and "
    "--tls-key, or a proxy with TLS\n"
)


def token_file(settings: Settings, named: str | None) -> Path:
    """Return the path of the file of tokens."""
    return settings.state_dir / FILE_NAME if named is None else Path(named)


# --- serving ----------------------------------------------------------------------------------------------------------


def serve(options: argparse.Namespace, overrides: Mapping[str, str | None]) -> int:
    """Serve until a signal; return the exit code: 128 plus its number, or 2 for options that cannot be used.

    `overrides` are the settings of the command line. Hosts get them as variables, which other accounts cannot read.
    """
    try:
        settings = load_settings(os.environ, overrides)
        if find_spec(_PACKAGE) is None:
            raise UsersError(f"--listen needs the extra `{EXTRA}`; run: {extra_command(EXTRA)}")
        if options.cluster is not None:
            check_installed()
        tls = _tls(options)
        users = TokenFile(token_file(settings, options.token_file))
        _check(users, settings, options.cluster)
        address = parsed_address(options.listen, "--listen")
        listening = address.listen()
    except (AddressError, InvalidRequestError, UsersError) as error:
        return _refused(error)
    import anyio  # only to serve

    from acp_adapter.listening.placement import PlacementError
    from acp_adapter.listening.server import listen_until_signal

    if tls is None and not address.is_loopback:
        sys.stderr.write(NO_ENCRYPTION.format(host=address.host))
    names = Names(tuple(dict.fromkeys((*LOOPBACK, *address.names, *options.allow_host))))
    variables = given_variables(os.environ, overrides)
    try:
        placement = _placement(options, settings, variables)
    except (InvalidRequestError, PlacementError, UsersError) as error:
        listening.close()
        return _refused(error)
    try:
        return anyio.run(listen_until_signal, listening, placement, users, names, tls)
    except KeyboardInterrupt:  # before the server handles signals
        return 130


def _placement(options: argparse.Namespace, settings: Settings, variables: Mapping[str, str]) -> Placement:
    """Return where hosts run. Raises InvalidRequestError, PlacementError and UsersError."""
    from acp_adapter.listening.placement import LocalProcesses

    if options.cluster is None:
        return LocalProcesses({**os.environ, **variables}, settings.state_dir, options.idle)
    authenticate(options.cluster, settings.store)
    from acp_adapter.listening.cluster import Hosting, RayPlacement, Resources

    labels = {name: value for name, _, value in (label.partition("=") for label in options.cluster_label)}
    if not all(name and value for name, value in labels.items()):
        raise UsersError("--cluster-label takes NAME=VALUE")
    resources = Resources(options.cluster_cpus or 0.0, (options.cluster_memory or 0) * _MIB, labels)
    return RayPlacement.join(options.cluster, Hosting(variables, str(settings.state_dir), options.idle), resources)


def _check(users: TokenFile, settings: Settings, cluster: str | None) -> None:
    """Check that someone can connect, and that each user can have a host, if it runs here. Raises UsersError."""
    from acp_adapter.listening.placement import check_accounts

    if not users.path.exists() or not users.tokens:
        raise UsersError(NONE_YET.format(path=users.path))
    if cluster in (None, LOCAL_CLUSTER):
        check_accounts({token.user for token in users.tokens.values()}, settings.state_dir)


def _tls(options: argparse.Namespace) -> tuple[str, str] | None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsersError("--tls-cert and --tls-key belong together")
    if options.tls_cert is None:
        return None
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsersError(f"cannot use {options.tls_cert} and {options.tls_key} for TLS: {error}") from None
    return options.tls_cert, options.tls_key


def _refused(error: Exception) -> int:
    sys.stderr.write(f"rewindow-acp: {error}\n")
    return 2


# --- tokens -----------------------------------------------------------------------------------------------------------


def change_tokens(arguments: Sequence[str]) -> int:
    """Add, list or revoke tokens; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        settings = load_settings(os.environ, {"state_dir": options.state_dir})
        file = TokenFile(token_file(settings, options.token_file))
        match options.action:
            case "add":
                _add(file, options)
            case "revoke":
                _revoke(file, options.name)
            case _:
                _list(file)
    except (InvalidRequestError, UsersError) as error:
        return _refused(error)
    return 0


def _add(file: TokenFile, options: argparse.Namespace) -> None:
    account: str = options.account or (options.user if os.geteuid() == 0 else getpass.getuser())
    token, secret = file.add(User(options.user, account))
    sys.stderr.write(
        f"rewindow-acp: added token {token.id} of {token.user.name}, account {account}, to {file.path}. "
        "It is shown only once:\n"
    )
    sys.stdout.write(f"{secret}\n")


def _revoke(file: TokenFile, name: str) -> None:
    revoked = file.revoke(name) if file.path.exists() else ()
    if not revoked:
        raise UsersError(f"there is no token or user {name}")
    for token in revoked:
        sys.stdout.write(f"revoked {_shown(token)}\n")


def _list(file: TokenFile) -> None:
    for token in file.tokens.values() if file.path.exists() else ():
        sys.stdout.write(f"{_shown(token)}\n")


def _shown(token: Token) -> str:
    return f"{token.id}  {token.user.name}  account {token.user.account}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        f"rewindow-acp {TOKENS}",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--token-file", metavar="FILE", help=f"the file (default: {FILE_NAME} in the state directory)")
    common.add_argument("--state-dir", metavar="DIR", help="where sessions are kept (REWINDOW_STATE_DIR)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", parents=[common], help="add a token, and print it")
    add.add_argument("user", metavar="USER", help="the name of the user")
    add.add_argument(
        "--account",
        metavar="ACCOUNT",
        help="the account that runs the user's agent (default: yours; for root, the account of that name)",
    )
    actions.add_parser("list", parents=[common], help="list the tokens, without their secrets")
    revoke = actions.add_parser("revoke", parents=[common], help="remove a token, or all tokens of a user")
    revoke.add_argument("name", metavar="ID|USER", help="the id of a token, or a user")
    return parser
