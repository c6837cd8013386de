"""Columns that a table had at an earlier snapshot, by Iceberg's field ids. Pure.

Properties belong to a table, not to a snapshot. So a table at a snapshot is described by its
present properties, with the names and types that its fields had then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from tailrace_sink.tables.column_identity import Identity
from tailrace_sink.tables.described_table import Described
from tailrace_sink.tables.lake_table import LakeColumn, LakeTable

FORMER_PROPERTY: Final = "tailrace.columns.former"
"""Property with the identities of columns that a replacement removed, by field id."""


class Field(NamedTuple):
    """A column of a schema, and its field id."""

    id: int
    column: Described


def former_identities(properties: Mapping[str, str]) -> dict[int, Identity]:
    """Return the identities of columns that replacements removed, by field id."""
    known = json.loads(properties.get(FORMER_PROPERTY) or "{}")
    return {int(field): Identity(*identity) for field, identity in known.items()}


def as_it_was(
    now: LakeTable,
    present: Iterable[Field],
    then: Iterable[Field],
    properties: Mapping[str, str],
) -> LakeTable:
    """Describe a table with the columns of an earlier snapshot.

    Args:
        now: the table as it is described now.
        present: fields of its present schema.
        then: fields of the snapshot's schema.
    """
    ids = {field.column.name: field.id for field in present}
    known = {ids[column.name]: column for column in now.columns}
    former, columns = former_identities(properties), []
    for field in then:
        column, name = known.get(field.id), field.column.name
        if column is None and field.id in former:
            of = former[field.id]
            column = LakeColumn(name, of.column_id, "", of.sql_type, of.key_ordinal)
        if column is not None:
            columns.append(replace(column, name=name, type=field.column.type))
    # Which schema version it had is not known, so every version of its later changes is newer.
    then_table = replace(now, columns=tuple(columns), schema_lsn="")
    return replace(then_table, recorded=then_table.identities)
