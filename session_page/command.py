"""`rewindow page [SESSION]`: serves the page of a session, or of all, until Ctrl-C.

Called by the command line, by its name. Must not know HTTP.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Annotated, Final

import anyio
import typer

from engine import Host, Store, Zygote, load_settings, open_store
from engine.core.clock import SystemClock
from engine.core.errors import EngineError, InvalidRequestError, SessionNotFoundError
from engine.core.ids import SessionId
from engine.core.text import printable
from engine.runtime.system.desktop import PLACES, browser_program
from session_page.assembly import bundle
from session_page.server import PageServer, listen

SERVING: Final = "Serving {what} at {address}"
ENDS: Final = "Ctrl-C ends it. Whoever has this address can do what you can do in these sessions: do not share it."
OPENED: Final = "A browser shows it."
_SIGNALLED: Final = 128
_PASSED: Final = (
    "BROWSER", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "DISPLAY", "HOME", "LANG", "LOGNAME", "SHELL",
    "USER", "WAYLAND_DISPLAY", "WSLENV", "WSL_DISTRO_NAME", "WSL_INTEROP", "XAUTHORITY",
)  # fmt: skip
_PASSED_PREFIXES: Final = ("XDG_", "LC_", "GNOME_", "KDE_", "GTK_", "QT_")


def page(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it; default: all."),
    ] = None,
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Show the page in a browser, if there is one."),
    port: int = typer.Option(
        0, "--port", metavar="PORT", min=0, max=65535, help="Serve on this port; default: any free one."
    ),
) -> None:
    """Show sessions as a page in your browser."""
    bundle()  # before an address is printed that shows nothing
    settings = load_settings(os.environ)
    store = open_store(settings.state_dir, SystemClock(), settings.store, settings.tenant)
    try:
        session_id = None if session is None else _find(store, session)
        listening = listen(port)
    except BaseException:
        store.close()
        raise
    zygote = Zygote.spawn()
    try:
        host = Host(settings, os.environ, zygote=zygote, store=store, must_have_model=False)
    except BaseException:
        zygote.close()
        raise
    failures: list[EngineError] = []
    received: list[int] = []

    async def run() -> None:
        # The engine's task group would wrap an exception that passes through it.
        async with host:
            try:
                server = PageServer(host, store, host.redactor, listening)
                if session_id is not None:
                    server.prepare(session_id)
                _announce(server, session_id, browser)
                received.append(await _serve(server))
            except EngineError as error:
                failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]
    raise typer.Exit(_SIGNALLED + received[0])


def _find(store: Store, start: str) -> SessionId:
    """Return the only session whose id starts with `start`.

    Raises:
        SessionNotFoundError, InvalidRequestError: none or several do.
    """
    rows = [row for row in store.rows() if start and row.session_id.startswith(start)]
    if not rows:
        raise SessionNotFoundError(SessionId(start))
    if len(rows) > 1:
        raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions; type more of the id")
    return rows[0].session_id


def _announce(server: PageServer, session_id: SessionId | None, browser: bool) -> None:
    what = "all sessions" if session_id is None else f"session {printable(session_id)}"
    address = server.access.address(token=server.access.token, session=session_id or "")
    # On the terminal itself: standard output may be a file that statements can read.
    typer.echo(SERVING.format(what=what, address=address), err=True)
    typer.echo(ENDS, err=True)
    if browser and show(server.access.address(ticket=server.access.ticket(), session=session_id or ""), os.environ):
        typer.echo(OPENED, err=True)


async def _serve(server: PageServer) -> int:
    """Serve until a signal; return its number."""
    stop = anyio.Event()
    received = 0
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await server.serve(stop)
                tasks.cancel_scope.cancel()

            tasks.start_soon(serve)
            async for number in signals:
                received = number
                stop.set()
    return received


def show(address: str, environ: Mapping[str, str]) -> bool:
    """Show an address in the browser of the desktop, if there is one; return whether one was asked.

    The browser's environment has no keys, because other processes can read it.
    """
    program = browser_program(environ)
    if program is None:
        return False
    passed = {name: value for name, value in environ.items() if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
    passed["PATH"] = PLACES
    try:
        subprocess.Popen(  # noqa: S603 -- a program of the desktop, with an address of ours
            [program, address],
            env=passed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
