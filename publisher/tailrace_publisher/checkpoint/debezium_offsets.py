"""The offsets of Debezium's SQL Server connector, as Kafka Connect keeps them.

Connect keeps one entry per source partition: the key is the JSON array of the connector's name and
its partition (``server``, the topic.prefix, and ``database``), the value the JSON object of its
offset. That has ``commit_lsn``, ``change_lsn`` (a seqval) and ``event_serial_no``, and neither
command id nor operation: it does not say which rows of the last transaction are out.
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
        connector: name of the connector.
        server: its topic.prefix.
        database: the source database; None in offsets of connectors before 2.0.
        offset: the fields.
    """

    connector: str
    server: str
    database: str | None
    offset: Mapping[str, Any]

    def __str__(self) -> str:
        """As it is told: whose offset it is."""
        return f"connector {self.connector} (topic.prefix {self.server}, database {self.database})"

    @property
    def incremental(self) -> str | None:
        """The tables whose incremental snapshot was not over; None when there are none."""
        tables = self.offset.get("incremental_snapshot_collections")
        return str(tables) if tables else None

    def commit_lsn(self) -> Lsn:
        """The commit LSN to begin with: its transaction may be out in part.

        Raises:
            ValueError: its initial snapshot was not over, or it has no LSN.
        """
        is_over = str(self.offset.get("snapshot_completed", "")).casefold() == "true"
        if str(self.offset.get("snapshot") or "false").casefold() != "false" and not is_over:
            raise ValueError(
                f"the snapshot of {self} was not over: its rows are to be read anew, so leave"
                " publisher.start out"
            )
        text = self.offset.get("commit_lsn")
        if not text or text == "NULL":
            raise ValueError(f"the offset of {self} has no commit_lsn")
        return Lsn.parse(str(text))


def connector_offsets(entries: Mapping[bytes, bytes | None]) -> list[ConnectorOffset]:
    """The offsets of SQL Server connectors among the entries of a store; others are left out.

    Args:
        entries: newest value of each key; None where it was taken away.
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
    """The one offset of a database.

    Args:
        offsets: those that a store holds.
        database: the source database, in any case.
        name: name or topic.prefix of the connector; None: any.

    Raises:
        ValueError: there is none, or there are several; names what there is.
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
        f"it holds {len(found)} offsets{of_name} for database {database}: name one with"
        f" start.debezium_name: {'; '.join(map(str, found))}"
    )
