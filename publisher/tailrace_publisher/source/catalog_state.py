"""Whether capture instances or their columns have changed: one statement that costs little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.queries import lsn_or_none
from tailrace_schemas.lsn import Lsn


@dataclass(frozen=True, slots=True)
class InstancesMark:
    """What tells one set of capture instances from another, whatever their number.

    One that is gone is missing in the number; one in its place has another object id, and another
    date, be it an earlier one, as clocks are put back; one that the capture process has come to has
    a low watermark, and never loses it.

    Attributes:
        count: number of capture instances.
        recognised: number of those that have a low watermark.
        object_ids: the sum of the object ids of their change tables.
        newest: when the newest was made; None where there is none.
    """

    count: int
    recognised: int
    object_ids: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What tells whether capture instances or their columns have changed.

    Attributes:
        instances: the capture instances.
        newest_ddl_lsn: newest ``ddl_lsn``, or None.
        ddl_count: number of DDL entries.
        raised: low watermarks behind the LSN that was asked for, per capture instance (name,
            object id); those of the others are not.
    """

    instances: InstancesMark
    newest_ddl_lsn: Lsn | None
    ddl_count: int
    raised: Mapping[tuple[str, int], Lsn] = field(default_factory=dict, compare=False)


def catalog_state(connection: Connection, needed: Lsn = Lsn.MAX) -> CatalogState:
    """What tells whether the catalog has changed, and raised low watermarks, in one round trip.

    ``cdc.change_tables.start_lsn`` is what ``sys.fn_cdc_get_min_lsn`` returns: cleanup raises it
    before it deletes. The low watermarks are asked for first: an instance that vanishes behind them
    is missing in what follows.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-change-tables-transact-sql

    Args:
        connection: where to ask.
        needed: low watermarks up to this LSN are not of interest.
    """
    raised, ((count, recognised, object_ids, newest),), ddl = connection.query_sets(
        "SELECT capture_instance, object_id, start_lsn FROM cdc.change_tables WHERE start_lsn > ?;"
        " SELECT COUNT(*), SUM(CASE WHEN start_lsn > 0x00000000000000000000"
        " THEN 1 ELSE 0 END),"
        " SUM(CAST(object_id AS bigint)), MAX(create_date) FROM cdc.change_tables;"
        " SELECT MAX(ddl_lsn), COUNT(*) FROM cdc.ddl_history",
        needed.to_bytes(),
    )
    return CatalogState(
        InstancesMark(int(count), int(recognised or 0), int(object_ids or 0), newest),
        lsn_or_none(ddl[0][0]),
        int(ddl[0][1]),
        {(str(row[0]), int(row[1])): Lsn.from_bytes(row[2]) for row in raised},
    )
