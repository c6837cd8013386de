"""Description of a lake table by its columns and properties. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import LakeTableChanged
from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    known_identities,
    parse_dropped,
)
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    COMPANIONS,
    DELETES_PROPERTY,
    HISTORY_COLUMNS,
    MODE_PROPERTY,
    OWN_COLUMNS,
    SCHEMA_LSN_PROPERTY,
    Feature,
    Kind,
    LakeColumn,
    LakeTable,
)
from tailrace_sink.tables.schema_record import SCHEMA_RECORD_PROPERTY

_GONE: Final = "it was renamed or dropped"


class Described(NamedTuple):
    """A column of a lake table; ``type`` is its Spark SQL type."""

    name: str
    type: str
    comment: str | None


def described_table(
    table: TableName,
    kind: Kind,
    columns: Iterable[Described],
    properties: Mapping[str, str],
    features: frozenset[Feature] = frozenset(),
    *,
    is_new: bool = False,
) -> LakeTable:
    """Describe a lake table.

    Args:
        features: those that it has on; only its writer needs them.

    Raises:
        LakeTableChanged: somebody else changed columns or properties that the sink needs.
    """
    listed = list(columns)
    needed = HISTORY_COLUMNS if kind is Kind.HISTORY else CDC_COLUMNS
    gone = needed.keys() - {column.name for column in listed}
    if gone:
        raise _changed(table, kind, gone, _GONE)
    mirrored, foreign = _columns(table, kind, listed, properties)
    return LakeTable(
        table=table,
        kind=kind,
        columns=mirrored,
        schema_lsn=properties.get(SCHEMA_LSN_PROPERTY, ""),
        features=features,
        foreign=foreign,
        recorded=properties.get(COLUMNS_PROPERTY, ""),
        dropped=parse_dropped(properties.get(DROPPED_PROPERTY)),
        mode=properties.get(MODE_PROPERTY, ""),
        schema_record=properties.get(SCHEMA_RECORD_PROPERTY, ""),
        deletes=properties.get(DELETES_PROPERTY, ""),
        is_new=is_new,
    )


def _changed(table: TableName, kind: Kind, gone: Iterable[str], problem: str) -> LakeTableChanged:
    name = f"{table}{COMPANIONS.get(kind, '')}"
    columns = ", ".join(sorted(gone))
    return LakeTableChanged(name, columns, problem, is_replaced=kind is Kind.MIRROR)


def _columns(
    table: TableName,
    kind: Kind,
    columns: Iterable[Described],
    properties: Mapping[str, str],
) -> tuple[tuple[LakeColumn, ...], frozenset[str]]:
    """Split columns into those that mirror the source's and those that somebody else added.

    Raises:
        LakeTableChanged: a mirrored column is gone, or the property that names them is damaged.
    """
    listed = [column for column in columns if column.name not in OWN_COLUMNS]
    try:
        identities, must_have = known_identities(properties, {c.name: c.comment for c in listed})
    except ValueError as error:
        raise _changed(table, kind, (), f"{COLUMNS_PROPERTY}: {error}") from error
    mirrored = tuple(
        LakeColumn(
            column.name,
            identities[column.name].column_id,
            column.type,
            identities[column.name].sql_type,
            identities[column.name].key_ordinal,
            column.comment,
        )
        for column in listed
        if column.name in identities
    )
    missing = must_have - {column.column_id for column in mirrored}
    if missing or not mirrored:
        gone = [name for name, identity in identities.items() if identity.column_id in missing]
        raise _changed(table, kind, gone, _GONE)
    return mirrored, frozenset(c.name.lower() for c in listed if c.name not in identities)
