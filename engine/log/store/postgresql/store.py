"""The store in a PostgreSQL database, which hosts on several machines share.

psycopg is imported and the database connected to only by the first call that needs it. Must not know what events mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, LiteralString, cast

from ....core.clock import Clock
from ....core.ids import SessionId
from ....core.store_address import check_address
from ..changes import Listen
from ..database_store import DatabaseStore, Parts
from .schema import MIGRATIONS, SCHEMA

if TYPE_CHECKING:  # for start-up, as in `_open`
    from .inspection import Inspection
    from .parts import PostgresqlParts


class PostgresqlStore(DatabaseStore):
    """Sessions in the PostgreSQL database at `address`, in tables of `schema`, which are created when first needed.

    Args:
        address: postgresql://...; see `rewindow help postgresql`.
        clock: for times of sessions. Leases use the database's clock.
        schema: of the tables.
        tenant: whose sessions these are. Tenants share nothing.
        migrations: the versions to know of.

    Raises:
        InvalidRequestError: the address is invalid.
    """

    def __init__(
        self,
        address: str,
        clock: Clock,
        *,
        schema: str = SCHEMA,
        tenant: str = "",
        migrations: Sequence[LiteralString] = MIGRATIONS,
    ) -> None:
        check_address(address)
        super().__init__(clock)
        self._address = address
        self._schema = schema
        self._tenant = tenant
        self._migrations = migrations

    def inspect(self) -> Inspection:
        """Look at the server, for `doctor`."""
        return self._database_parts().inspect()

    def faults(self, seconds: float) -> list[str] | None:
        """Return what is wrong with the tables; None if the check did not end within `seconds`. For `doctor`."""
        return self._database_parts().faults(seconds)

    def _database_parts(self) -> PostgresqlParts:
        return cast("PostgresqlParts", self._parts())

    @property
    def is_remote(self) -> bool:
        return True

    def _open(self) -> Parts:
        # Imported here, because a host answers its first request sooner without psycopg.
        from .database import Database
        from .parts import open_parts

        return open_parts(Database(self._address, self._schema, self._migrations), self._tenant, self._lease_lost)

    def _lease_lost(self, session_id: SessionId) -> None:
        # A commit of nothing checks the lease, and so tells the session, in order with its other commits.
        session, parts = self._acquired.get(session_id), self._opened
        if session is not None and parts is not None:
            parts.writer.put(Listen(session))
