"""`/page`: the address of the session's page.

The answer is on the log, and editors store it, so it has no secret. The ticket is shown before it, and recorded
nowhere.
"""

from __future__ import annotations

from typing import Final

from ...core.errors import InvalidRequestError
from ..journal import TextStreamed
from . import CommandContext

TICKET: Final = "Open {address} in a browser on this machine. It works once, within a minute.\n\n"
PAGE: Final = "The page of this session is at {address} until this program ends. To open it, type `/page` again."
NO_PAGE: Final = "This program serves no page; `rewindow page` does."


async def page(context: CommandContext, _argument: str) -> str:
    parts = context.runtime.parts
    if parts.open_page is None:
        raise InvalidRequestError(NO_PAGE)
    found = await parts.open_page(parts.session_id)
    ticket = TextStreamed(parts.minter.message(), TICKET.format(address=found.with_ticket), aside=True)
    parts.journal.signal(ticket, is_whole=True)
    return PAGE.format(address=found.address)
