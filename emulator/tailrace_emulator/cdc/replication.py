"""Transactional publications, as far as change data capture has to do with them.

The log of a database has one reader. Without publications it is the capture job. With the first
transactional publication the capture job is removed, and the Log Reader Agent of replication feeds
the change tables. When the last publication goes, the Log Reader Agent goes and the capture job
comes back with its default parameters. The reference is about-change-data-capture, "Relationship
Between the Capture Job and the Transactional Replication Logreader".

Nothing is distributed: there are no subscribers. What the documents leave open is in
docs/emulator.md.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Table

LOG_READER: Final = "logreader"
SERVER_NAME: Final = "TAILRACE"
CONTINUOUS: Final = "continuous"
_PUBLISHED: Final = "is_published"
_PUBLICATIONS: Final = "publications"


@dataclass(frozen=True, slots=True)
class Article:
    """A table of a publication."""

    name: str
    object_id: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication; ``frequency`` is continuous (transactional) or snapshot."""

    name: str
    frequency: str = CONTINUOUS
    description: str = ""
    articles: tuple[Article, ...] = ()


def publications(database: Database) -> list[Publication]:
    """The publications of a database."""
    stored = database.options.get(_PUBLICATIONS)
    rows: list[dict[str, Any]] = json.loads(stored) if isinstance(stored, str) else []
    return [
        Publication(**{**row, "articles": tuple(Article(**a) for a in row["articles"])})
        for row in rows
    ]


def is_published(database: Database) -> bool:
    """Whether the database may have publications."""
    return bool(database.options.get(_PUBLISHED))


def has_log_reader(database: Database) -> bool:
    """Whether the Log Reader Agent reads the log, because there is a transactional publication."""
    return any(p.frequency == CONTINUOUS for p in publications(database))


def log_reader_name(database: Database) -> str:
    """Name of the Log Reader Agent's job, as SQL Server composes it."""
    return f"{SERVER_NAME}-{database.name}-1"


def log_reader_id(database: Database) -> uuid.UUID:
    """Id of the Log Reader Agent's job: it is the database's."""
    return uuid.uuid5(database.guid, LOG_READER)


def is_replicated(database: Database, table: Table) -> bool:
    """Whether a table is an article of a publication."""
    return any(
        article.object_id == table.object_id
        for publication in publications(database)
        for article in publication.articles
    )


def set_published(connection: apsw.Connection, database: Database, *, published: bool) -> None:
    """sp_replicationdboption 'publish', inside an :meth:`Engine.write`; false drops all."""
    database.set_option(_PUBLISHED, int(published), connection)
    if not published:
        _save(connection, database, [])


def add_publication(
    connection: apsw.Connection, database: Database, publication: Publication
) -> None:
    """sp_addpublication, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 14013 when the database does not publish, 14016 when the name is taken.
    """
    if not is_published(database):
        raise messages.error(14013, procedure="sp_MSrepl_addpublication")
    known = publications(database)
    if any(p.name.casefold() == publication.name.casefold() for p in known):
        raise messages.error(14016, publication.name, procedure="sp_MSrepl_addpublication")
    _save(connection, database, [*known, publication])


def drop_publication(connection: apsw.Connection, database: Database, name: str) -> None:
    """sp_droppublication of one or of ``all``, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 20026 when there is none of that name.
    """
    if name.casefold() == "all":
        _save(connection, database, [])
        return
    found = find_publication(database, name)
    rest = [p for p in publications(database) if p.name != found.name]
    _save(connection, database, rest)


def find_publication(database: Database, name: str) -> Publication:
    """The publication of that name, case-insensitively.

    Raises:
        SqlError: 20026 when there is none.
    """
    for publication in publications(database):
        if publication.name.casefold() == name.casefold():
            return publication
    raise messages.error(20026, name)


def add_article(
    connection: apsw.Connection, database: Database, publication: str, article: Article
) -> None:
    """sp_addarticle, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 20026 unknown publication, 14030 name taken, 14088 a table without primary key.
    """
    found = find_publication(database, publication)
    if any(a.name.casefold() == article.name.casefold() for a in found.articles):
        raise messages.error(14030, article.name, found.name)
    table = database.table_by_id(article.object_id)
    if found.frequency == CONTINUOUS and table is not None and table.primary_key is None:
        raise messages.error(14088, f"[{table.schema}].[{table.name}]")
    _replace(connection, database, replace(found, articles=(*found.articles, article)))


def drop_article(
    connection: apsw.Connection, database: Database, publication: str, name: str
) -> None:
    """sp_droparticle of one or of ``all``, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 20026 unknown publication, 20027 unknown article.
    """
    found = find_publication(database, publication)
    folded = name.casefold()
    rest = tuple(a for a in found.articles if folded not in {"all", a.name.casefold()})
    if folded != "all" and len(rest) == len(found.articles):
        raise messages.error(20027, name)
    _replace(connection, database, replace(found, articles=rest))


def _replace(connection: apsw.Connection, database: Database, publication: Publication) -> None:
    changed = [publication if p.name == publication.name else p for p in publications(database)]
    _save(connection, database, changed)


def _save(connection: apsw.Connection, database: Database, changed: list[Publication]) -> None:
    database.set_option(_PUBLICATIONS, json.dumps([asdict(p) for p in changed]), connection)
