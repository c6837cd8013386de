"""The offsets of Debezium's SQL Server connector, as Kafka Connect stores them.

Connect stores one entry per source partition. The key is the JSON array of the connector's name and
its partition (``server``, the topic.prefix, and ``database``). The value is the JSON object of its
offset. The offset has ``commit_lsn``, ``change_lsn`` (a seqval) and ``event_serial_no``, and
neither command id nor operation. So it does not show which rows of the last transaction are
published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """The offset of one connector in one database.

    Attributes:
        server: the topic.prefix of the connector.
        database: the source database; None in offsets of connectors before 2.0.
    """

    connector: str
    server: str
    database: str | None
    offset: Mapping[str, Any]

    def __str__(self) -> str:
        """Name the connector as messages do."""
        return f"connector {self.connector} (topic.prefix {self.server}, database {self.database})"

    @property
    def incremental(self) -> str | None:
        """The tables whose incremental snapshot was not finished; None if there are none."""
        tables = self.offset.get("incremental_snapshot_collections")
        return str(tables) if tables else None

    def commit_lsn(self) -> Lsn:
        """Return the commit LSN to start with; its transaction may be published in part.

        Raises:
            ValueError: the initial snapshot was not finished, or the offset has no LSN.
        """
        is_over = str(self.offset.get("snapshot_completed", "")).casefold() == "true"
        if str(self.offset.get("snapshot") or "false").casefold() != "false" and not is_over:
            raise ValueError(
                f"the snapshot of {self} was not finished, so its rows must be read again. Fix:"
                " remove publisher.start"
            )
        text = self.offset.get("commit_lsn")
        if not text or text == "NULL":
            raise ValueError(f"the offset of {self} has no commit_lsn")
        return Lsn.parse(str(text))


def connector_offsets(entries: Mapping[bytes, bytes | None]) -> list[ConnectorOffset]:
    """Return the offsets of SQL Server connectors among a store's entries; skip the others.

    Args:
        entries: newest value of each key; None if it was deleted.
    """
    found = []
    for key, value in entries.items():
        try:
            connector, partition = json.loads(key)
            offset = json.loads(value or b"null")
            server = partition["server"]
        except (ValueError, TypeError, KeyError):
            continue
        if isinstance(offset, dict) and "commit_lsn" in offset:
            found.append(
                ConnectorOffset(str(connector), str(server), partition.get("database"), offset)
            )
    return found


def chosen_offset(
    offsets: Iterable[ConnectorOffset], database: str, name: str | None
) -> ConnectorOffset:
    """Return the only offset of a database.

    Args:
        offsets: all offsets of a store.
        database: the source database, in any case.
        name: name or topic.prefix of the connector; None for any.

    Raises:
        ValueError: there is none, or there are several; lists those that exist.
    """
    known = list(offsets)
    of_database = [
        o for o in known if o.database is None or o.database.casefold() == database.casefold()
    ]
    found = [o for o in of_database if name is None or name in (o.connector, o.server)]
    if len(found) == 1:
        return found[0]
    of_name = "" if name is None else f" of connector {name}"
    if not found:
        there = "; ".join(map(str, known)) or "no offset of a SQL Server connector"
        raise ValueError(f"it holds no offset{of_name} for database {database}, but {there}")
    raise ValueError(
        f"it holds {len(found)} offsets{of_name} for database {database}. Fix: name one with"
        f" start.debezium_name: {'; '.join(map(str, found))}"
    )
