"""The fields of an Avro schema in the order of their bytes, and those of them that are wanted.

A field that is not wanted is passed over by its length.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tailrace_sink.columns.cursor import Cursor, Numbers, Undecodable

Schema = Any
"""A schema in JSON: a name, a list of branches or an object."""


class NotByColumns(Exception):
    """A schema or a column that is not decoded by columns, with the reason."""


_ITEMS_MAX: Final = 30_000
"""Items of a list of columns in one block. See: Maximum capacity specifications for SQL Server,
columns per wide table."""


@dataclass(frozen=True, slots=True)
class Values:
    """What some records have in one field.

    Attributes:
        rows: the records that have a value, in order; None: all.
        data: a number for each; of a span its first position; of a list the number of its items.
        lengths: of spans, or of the items of lists, in the order of the records.
        firsts: first position of each item of a list.
    """

    rows: Numbers | None
    data: Numbers
    lengths: Numbers | None = None
    firsts: Numbers | None = None


@dataclass(slots=True)
class Found:
    """Values by the path of their field, ``source.ts_ms``; a path that is missing has none.

    Attributes:
        there: records in which a nullable record has a value, by its path; missing: none has.
    """

    values: dict[str, Values] = field(default_factory=dict)
    there: dict[str, Numbers | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field without parts.

    Attributes:
        path: where its values go; empty: they are passed over.
    """

    path: str
    kind: str
    size: int = 0

    def read(self, cursor: Cursor, rows: Numbers | None, found: Found) -> None:
        values = self._values(cursor, rows)
        if self.path and values is not None:
            found.values[self.path] = values

    def _values(self, cursor: Cursor, rows: Numbers | None) -> Values | None:
        match self.kind:
            case "null":
                return None
            case "int" | "enum":
                return Values(rows, cursor.ints())
            case "long":
                return Values(rows, cursor.longs())
            case "boolean":
                return Values(rows, cursor.flags())
            case "float":
                return Values(rows, cursor.fixed(4).view("<f4").reshape(-1))
            case "double":
                return Values(rows, cursor.fixed(8).view("<f8").reshape(-1))
            case _:
                return Values(rows, *cursor.spans())


@dataclass(frozen=True, slots=True)
class _Texts:
    """A list of texts, in blocks: a count, the items, and so on until a count of 0."""

    path: str

    def read(self, cursor: Cursor, rows: Numbers | None, found: Found) -> None:
        counts = np.zeros(len(cursor.at), np.int64)
        items: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        within = np.arange(len(cursor.at))
        while len(within):
            part = cursor.part(within)
            block = part.longs()
            sized = np.flatnonzero(block < 0)
            if len(sized):  # A negative count is followed by the bytes of the block.
                inner = part.part(sized)
                inner.longs()
                part.take_back(sized, inner)
                block = np.abs(block)
            # Past the end of the bytes a list would not end either.
            if block.view(np.uint64).max() > _ITEMS_MAX or part.at.max() > len(cursor.data):
                raise Undecodable("a list has more items than a table has columns")
            self._items(part, within, block, counts, items)
            cursor.take_back(within, part)
            within = within[block > 0]
        if self.path:
            found.values[self.path] = _listed(rows, counts, items)

    def _items(
        self,
        part: Cursor,
        within: Numbers,
        block: Numbers,
        counts: Numbers,
        items: list[tuple[Numbers, Numbers, Numbers, Numbers]],
    ) -> None:
        for number in range(int(block.max(initial=0))):
            having = np.flatnonzero(block > number)
            inner = part.part(having)
            firsts, lengths = inner.spans()
            part.take_back(having, inner)
            records = within[having]
            items.append((records, counts[records], firsts, lengths))
            counts[records] += 1


def _listed(
    rows: Numbers | None,
    counts: Numbers,
    items: list[tuple[Numbers, Numbers, Numbers, Numbers]],
) -> Values:
    """Put the items of lists in the order of their records."""
    before = np.cumsum(counts) - counts
    firsts, lengths = (np.zeros(int(counts.sum()), np.int64) for _ in range(2))
    for records, numbers, first, length in items:
        places = before[records] + numbers
        firsts[places], lengths[places] = first, length
    return Values(rows, counts, lengths, firsts)


@dataclass(frozen=True, slots=True)
class _Optional:
    """A union of null and something."""

    path: str
    is_null_first: bool
    inner: _Field | _Record | _Texts

    def read(self, cursor: Cursor, rows: Numbers | None, found: Found) -> None:
        is_there = cursor.branches(2) == (1 if self.is_null_first else 0)
        if is_there.all():
            found.there[self.path] = rows
            self.inner.read(cursor, rows, found)
            return
        having = np.flatnonzero(is_there)
        if not len(having):
            return
        part = cursor.part(having)
        having_rows = having if rows is None else rows[having]
        found.there[self.path] = having_rows
        self.inner.read(part, having_rows, found)
        cursor.take_back(having, part)


@dataclass(frozen=True, slots=True)
class _Record:
    fields: tuple[_Field | _Record | _Texts | _Optional, ...]

    def read(self, cursor: Cursor, rows: Numbers | None, found: Found) -> None:
        for part in self.fields:
            part.read(cursor, rows, found)


class AvroPlan:
    """Decodes records of one writer schema.

    Args:
        avro: the schema of a record, as JSON text.
        wanted: paths of the fields whose values are wanted.

    Raises:
        NotByColumns: a field has a form that is not decoded by columns.
    """

    def __init__(self, avro: str, wanted: Collection[str]) -> None:
        self._wanted = frozenset(wanted)
        self._named: dict[str, Schema] = {}
        self._root = self._plan(json.loads(avro), "", "")

    def decode(self, data: Numbers, first: Numbers, ends: Numbers) -> Found:
        """Decode records.

        Args:
            data: bytes of all records.
            first: position of each record's first byte.
            ends: position after its last one.

        Raises:
            Undecodable: a record is none of the schema.
        """
        cursor, found = Cursor(data, first), Found()
        self._root.read(cursor, None, found)
        cursor.require_at(ends)
        return found

    def _plan(
        self, schema: Schema, path: str, namespace: str
    ) -> _Field | _Record | _Texts | _Optional:
        if isinstance(schema, str) and schema not in _PLAIN:
            schema = self._known(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, path, namespace)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (list, dict)):
            return self._plan(kind, path, namespace)
        name = path if path in self._wanted else ""
        if kind == "record":
            return self._record(schema, path, namespace)
        if kind == "array" and schema["items"] == "string":
            return _Texts(name)
        if kind not in _PLAIN:
            raise NotByColumns(f"field {path} has Avro type {kind}")
        return _Field(name, kind)

    def _record(self, schema: Mapping[str, Any], path: str, namespace: str) -> _Record:
        name, space = schema["name"], schema.get("namespace", namespace)
        if "." in name:
            space, _, name = name.rpartition(".")
        self._named[f"{space}.{name}"] = schema
        prefix = f"{path}." if path else ""
        return _Record(
            tuple(self._plan(of["type"], f"{prefix}{of['name']}", space) for of in schema["fields"])
        )

    def _known(self, name: str, namespace: str) -> Schema:
        found = self._named.get(name if "." in name else f"{namespace}.{name}")
        if found is None:
            raise NotByColumns(f"type {name} is unknown")
        return found

    def _union(self, branches: list[Schema], path: str, namespace: str) -> _Optional:
        if len(branches) != 2 or "null" not in branches:
            raise NotByColumns(f"field {path} is a union of {len(branches)} types")
        is_null_first = branches[0] == "null"
        inner = self._plan(branches[1 if is_null_first else 0], path, namespace)
        if isinstance(inner, _Optional):
            raise NotByColumns(f"field {path} is a union in a union")
        return _Optional(path, is_null_first, inner)


_PLAIN: Final = frozenset(
    {"null", "int", "long", "boolean", "float", "double", "string", "bytes", "enum"}
)
