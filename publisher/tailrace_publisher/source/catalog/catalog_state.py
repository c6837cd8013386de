"""Whether capture instances or their columns have changed: one cheap statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.capture_catalog import NARROWED_MAX, narrowed
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class InstancesMark:
    """What distinguishes one set of capture instances from another, whatever their number.

    A dropped instance lowers the count. One in its place has another object id, and another date,
    which may be earlier if a clock was set back. An instance that the capture process has
    recognised has a low watermark, and never loses it.

    Attributes:
        recognised: number of those that have a low watermark.
        object_ids: sum of their change tables' object ids.
        newest: the latest creation date. None if there is no instance.
    """

    count: int
    recognised: int
    object_ids: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What shows whether capture instances or their columns have changed.

    Attributes:
        newest_ddl_lsn: newest ``ddl_lsn``; None without DDL.
        ddl_count: number of DDL entries.
        raised: low watermarks after the requested LSN. They are per capture instance (name, object
            id).
    """

    instances: InstancesMark
    newest_ddl_lsn: Lsn | None
    ddl_count: int
    raised: Mapping[tuple[str, int], Lsn] = field(default_factory=dict, compare=False)

    def ddl_with(self, entries: Sequence[bytes]) -> tuple[bytes | None, int]:
        """Return the newest LSN and the number of DDL entries, including some more."""
        newest = None if self.newest_ddl_lsn is None else self.newest_ddl_lsn.to_bytes()
        return max(entries, default=newest), self.ddl_count + len(entries)


@dataclass(frozen=True, slots=True)
class News:
    """Which DDL a query covers: that of capture instances with news, since an earlier query.

    ``cdc.ddl_history`` is clustered by object id and LSN. It is not cleaned while its instances
    exist, and holds the statements' texts, so counting its rows reads all of it. The capture
    process reaches DDL in the order of the log. So a new entry has a later LSN than all earlier
    ones.

    Attributes:
        object_ids: of the change tables that have news.
        known: the result of the earlier query.
    """

    object_ids: Collection[int]
    known: CatalogState


def catalog_state(
    connection: Connection, needed: Lsn = Lsn.MAX, news: News | None = None
) -> CatalogState:
    """Read, in one round trip, what shows a changed catalog, and the raised low watermarks.

    ``cdc.change_tables.start_lsn`` is what ``sys.fn_cdc_get_min_lsn`` returns: cleanup raises it
    before it deletes. The low watermarks are read first. If an instance vanishes after that, it is
    missing in the following results.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-change-tables-transact-sql

    Args:
        needed: low watermarks up to this LSN are left out.
        news: leaves other DDL out; None to read all of it.
    """
    # See: cdc.change_tables; cdc.ddl_history. Inferred: does cleanup commit a raised start_lsn
    # before it deletes the first row below it?
    if news is not None and len(news.object_ids) > NARROWED_MAX:
        news = None
    asked, parameters = _ddl(news)
    raised, ((count, recognised, object_ids, newest),), *found = connection.query_sets(
        "SELECT capture_instance, object_id, start_lsn FROM cdc.change_tables WHERE start_lsn > ?;"
        " SELECT COUNT(*), SUM(CASE WHEN start_lsn > 0x00000000000000000000"
        " THEN 1 ELSE 0 END),"
        f" SUM(CAST(object_id AS bigint)), MAX(create_date) FROM cdc.change_tables{asked}",
        needed.to_bytes(),
        *parameters,
    )
    if news is None:
        ((newest_ddl, ddl_count),) = found[0]
    else:
        newest_ddl, ddl_count = news.known.ddl_with([row[1] for rows in found for row in rows])
    return CatalogState(
        InstancesMark(int(count), int(recognised or 0), int(object_ids or 0), newest),
        lsn_or_none(newest_ddl),
        int(ddl_count),
        {(str(row[0]), int(row[1])): Lsn.from_bytes(row[2]) for row in raised},
    )


def _ddl(news: News | None) -> tuple[str, list[Any]]:
    """Return the statement about DDL, with its parameters."""
    if news is None:
        return "; SELECT MAX(ddl_lsn), COUNT(*) FROM cdc.ddl_history", []
    if not news.object_ids:
        return "", []
    where, ids = narrowed("AND", "object_id", news.object_ids)
    known = news.known.newest_ddl_lsn or Lsn.ZERO
    return (
        f"; SELECT object_id, ddl_lsn FROM cdc.ddl_history WHERE ddl_lsn > ?{where}",
        [known.to_bytes(), *ids],
    )
