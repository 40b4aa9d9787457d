"""Who may use a served page: whoever has its token. The secrets are in the memory of this process alone.

The token is printed in the terminal, as the fragment of an address, which browsers send to no server. A browser that
this program starts gets a *ticket* instead, because the command line of a process is readable: a ticket is exchanged
for the token once, within `TICKET_SECONDS`. An editor gets a ticket too, because it stores what it is answered.

Must not know what is served.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Final

from engine.core.web_access import Names, is_bearer

TICKET_SECONDS: Final = 60.0
_MOST_TICKETS: Final = 32
"""The oldest is forgotten first."""
_BYTES: Final = 32
HOST: Final = "127.0.0.1"
"""The address that is served, and the only one."""
_NAMES: Final = (HOST, "localhost")


class Access:
    """The token of one server, and its tickets.

    Args:
        port: the port that it serves.
        clock: returns monotonic seconds.
    """

    def __init__(self, port: int, clock: Callable[[], float]) -> None:
        self.names = Names(_NAMES, port, (b"http",))
        self.port = port
        self.token: Final = secrets.token_urlsafe(_BYTES)
        self._clock = clock
        self._tickets: dict[str, float] = {}
        """Each with the time at which it ends."""

    def ticket(self) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(_BYTES)
        self._tickets[ticket] = self._clock() + TICKET_SECONDS
        while len(self._tickets) > _MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    def redeem(self, given: str) -> str | None:
        """Return the token for a ticket that was not used and is not too old; the ticket is used then."""
        found = None
        for ticket in self._tickets:  # each, so that the time says nothing
            if hmac.compare_digest(ticket.encode(), given.encode("utf-8", "surrogatepass")):
                found = ticket
        if found is None or self._tickets.pop(found) < self._clock():
            return None
        return self.token

    def is_allowed(self, authorization: list[bytes]) -> bool:
        """Whether a request with these `Authorization` headers has the token."""
        return is_bearer(authorization, self.token)

    def address(self, *, ticket: str = "", token: str = "", session: str = "") -> str:
        """Return the address of the page, with what is given in its fragment."""
        parts = {"ticket": ticket, "token": token, "session": session}
        fragment = "&".join(f"{name}={value}" for name, value in parts.items() if value)
        return f"http://{HOST}:{self.port}/" + (f"#{fragment}" if fragment else "")
