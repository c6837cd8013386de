"""A lake table with the columns that it has after the tail. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.tables.lake_table import LakeTable
from tailrace_sink.tables.origins import in_shared_table
from tailrace_sink.tables.schema_changes import evolve

RowsT = TypeVar("RowsT")
"""Rows in the form of one reader: a DataFrame of Spark, or an Arrow table."""


@dataclass(frozen=True, slots=True)
class TableRows(Generic[RowsT]):
    """A lake table with all its rows."""

    table: LakeTable
    rows: RowsT


def following(known: LakeTable, tail: TableBatch) -> LakeTable:
    """Return a table with the columns after the tail's schema versions."""
    mode = SchemaMode(known.mode or SchemaMode.EVOLVE)
    known = replace(of_source(known, tail), recorded=known.identities)
    return evolve(known, versions(tail), mode=mode)[0]


def of_source(table: LakeTable, tail: TableBatch) -> LakeTable:
    """Return a table of which the rows of the tail's source are meant."""
    return replace(table, origin=tail.table if table.is_shared else None)


def versions(tail: TableBatch) -> list[TableSchema]:
    """Return the schema versions of the tail in the terms of its lake table, the oldest first."""
    ordered = sorted(tail.versions, key=lambda version: version.schema_lsn)
    return [in_shared_table(version, tail.lake_table) for version in ordered]
