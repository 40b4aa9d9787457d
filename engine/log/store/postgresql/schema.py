"""The tables of a PostgreSQL store, and their migrations.

The table `migrations` has a row for each migration that a database has seen; a new one runs all of them. A new version
is one entry in MIGRATIONS. Must not connect: `database` runs the migrations in one transaction.

Text of users is bytes: a database may have any encoding, and PostgreSQL's text takes no NUL. Ids are ASCII, and are
compared by their bytes. Each key begins with the tenant, so tenants share nothing, not even equal contents.
"""

from __future__ import annotations

from typing import Final, LiteralString

SCHEMA: Final = "rewindow"
"""The schema of the tables, unless a program chooses another one."""

_FIRST: Final = """
CREATE TABLE sessions (
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    cwd bytea NOT NULL,
    directories bytea NOT NULL,
    title bytea,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    events bigint NOT NULL,
    size bigint NOT NULL,
    contents_size bigint NOT NULL DEFAULT 0,
    droppable_size bigint NOT NULL DEFAULT 0,
    archived boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, session)
) WITH (fillfactor = 70);
CREATE TABLE events (
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    json bytea NOT NULL,
    PRIMARY KEY (tenant, session, seq),
    FOREIGN KEY (tenant, session) REFERENCES sessions ON DELETE CASCADE
);
CREATE TABLE blobs (
    tenant text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    size bigint NOT NULL,
    packed bigint NOT NULL,
    PRIMARY KEY (tenant, digest)
);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE refs (
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    droppable boolean NOT NULL,
    PRIMARY KEY (tenant, session, digest),
    FOREIGN KEY (tenant, session) REFERENCES sessions ON DELETE CASCADE,
    FOREIGN KEY (tenant, digest) REFERENCES blobs
);
CREATE INDEX refs_digest ON refs (tenant, digest);
CREATE SEQUENCE lease_numbers;
CREATE TABLE leases (
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL UNIQUE,
    store text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (tenant, session)
) WITH (fillfactor = 50);
"""
# Contents are compressed before, so PostgreSQL need not try. Commits and renewals change rows of `sessions` and
# `leases` in place as long as their pages have room.

MIGRATIONS: Final[tuple[LiteralString, ...]] = (_FIRST,)
