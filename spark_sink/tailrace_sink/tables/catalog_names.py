"""Names of lake tables in a catalog. Pure.

Catalogs like Hive's ignore case and allow letters of ASCII, digits and ``_`` only. So names are in
lower case, with ``_`` for any other character. If a character was replaced, or
several tables would have one name, it ends with six digits of a hash of the table's path. So no
name depends on which other tables exist, except where two tables differ by case only.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tailrace_schemas.topics.escaped_names import unescape
from tailrace_sink.tables.lake_table import quote

_OTHER = re.compile(r"[^a-z0-9_]")


class CatalogName(NamedTuple):
    """Name of a table in a catalog."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def within(self, catalog: str) -> str:
        """Quote the full name in a catalog."""
        return ".".join(map(quote, (catalog, *self)))

    @classmethod
    def parse(cls, text: str) -> CatalogName:
        """Read ``schema.table``; neither part has a dot."""
        schema, _, table = text.partition(".")
        return cls(schema, table)


def catalog_names(paths: Iterable[str], template: str) -> dict[str, CatalogName]:
    """Return the name of each table.

    Args:
        paths: below the lake; a companion's has a suffix like ``.changes``.
        template: of the schema, with ``{database}`` and ``{schema}``.
    """
    plain = {path: _name(path, template) for path in sorted(paths)}
    shared = Counter(name for name, _ in plain.values())
    return {
        path: CatalogName(name.schema, f"{name.table}_{_digits(path)}")
        if was_replaced or shared[name] > 1
        else name
        for path, (name, was_replaced) in plain.items()
    }


def allowed(text: str) -> str:
    """Return a name with the characters that every catalog allows."""
    return _OTHER.sub("_", text.lower())


def _name(path: str, template: str) -> tuple[CatalogName, bool]:
    """Return a table's name, and whether one of its own characters was replaced."""
    *folders, last = path.split("/")
    base, _, suffix = last.partition(".")
    database, schema, table = (unescape(part) for part in (*folders, base))
    wanted = template.format(database=database, schema=schema), table
    found = CatalogName(*map(allowed, wanted))
    companion = f"_{suffix}" if suffix else ""
    is_replaced = found != tuple(text.lower() for text in wanted)
    return CatalogName(found.schema, found.table + companion), is_replaced


def _digits(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:6]
