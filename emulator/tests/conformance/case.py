"""Conformance cases: T-SQL and what a server must answer, as YAML.

A file of ``cases/`` is a list of cases. Each runs in a database of its own::

    - case: what it shows
      source: documented            # or inferred
      reference: where it is written, or why it is believed
      database: cdc                 # plain (default) or cdc: enabled for change data capture
      server: admin                 # optional; admin: a server with --admin and a clock that stands
                                    # still; embedded: not for another SQL Server
      logins: [reader]              # optional: users of the database, each with a login
                                    # {database}_reader of the server; ``publisher`` has the
                                    # grants that docs/real-sqlserver.md gives to the publisher
      steps:
        - sql: SELECT ...           # {database} is the case's database
          columns: [name type, ...] # optional; types as described below
          rows: [[...], ...]        # optional; of the step's first result set
          unordered: true           # optional; rows may come in any order
          messages: [text, ...]     # optional; informational messages, in order
          as: reader                # optional; run by this login of the case, not by sysadmin
          error: 22901              # optional; the native error number that it must raise
          error_text: part of it    # optional
        - scan: true                # lets the capture process read the log to its end

Values are written as text: null, numbers, ``0x..`` for binary, ISO format for dates and times. A
value in angle brackets is a pattern: ``<any>``, ``<null?>``, ``<lsn>`` (ten bytes), ``<datetime>``,
``<guid>``, ``<int>``; with a colon and a name (``<lsn:first>``) the value must be the same wherever
the name appears. Column types are the driver's: ``int``, ``str(128)``, ``bytes(10)``,
``Decimal(18,4)``, ``datetime(23,3)``. NULL or NOT NULL is asked of sys.columns: what the driver
says of a number depends on the form in which it travels.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parent / "cases"
SOURCES = ("documented", "inferred")
PUBLISHER = "publisher"
GRANTS = ("GRANT SELECT ON SCHEMA::cdc TO {user}", "GRANT VIEW DATABASE STATE TO {user}")
"""What the publisher's login may do, without the tables that it publishes and the gating roles."""
STEP_KEYS = {"sql", "as", "scan", "columns", "rows", "unordered", "messages", "error", "error_text"}
CASE_KEYS = {"case", "source", "reference", "database", "server", "logins", "steps"}


class CaseLoader(yaml.SafeLoader):
    """YAML in which only null is special: numbers, 0x07, on and dates are the text they are."""


CaseLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Case:
    """One case; ``name`` is file and title."""

    name: str
    source: str
    reference: str
    database: str
    server: str
    logins: tuple[str, ...]
    steps: tuple[dict[str, Any], ...]


def load_cases() -> list[Case]:
    """Every case, in file order; a malformed one is an error that names it."""
    cases = []
    for path in sorted(CASES.glob("*.yaml")):
        for raw in yaml.load(path.read_text(encoding="utf-8"), CaseLoader):  # noqa: S506
            name = f"{path.stem}: {raw.get('case')}"
            unknown = set(raw) - CASE_KEYS
            for step in raw.get("steps", []):
                unknown |= set(step) - STEP_KEYS
            if unknown or raw.get("source") not in SOURCES or not raw.get("reference"):
                raise ValueError(f"{name}: unknown keys {unknown} or no source and reference")
            cases.append(
                Case(
                    name,
                    raw["source"],
                    raw["reference"],
                    raw.get("database", "plain"),
                    raw.get("server", "plain"),
                    tuple(raw.get("logins", ())),
                    tuple(raw["steps"]),
                )
            )
    return cases


@dataclass
class Names:
    """The values that named patterns have been bound to in one case."""

    bound: dict[str, str] = field(default_factory=dict)

    def matches(self, expected: object, value: object) -> bool:
        """Whether a value is what a case expects."""
        shown = text_of(value)
        if not (isinstance(expected, str) and expected.startswith("<") and expected.endswith(">")):
            return text_of(expected) == shown
        kind, _, name = expected[1:-1].partition(":")
        if not _is_kind(kind, value):
            return False
        return not name or self.bound.setdefault(name, shown) == shown


def _is_kind(kind: str, value: object) -> bool:
    if kind == "lsn":
        return isinstance(value, bytes) and len(value) == 10
    if kind == "any":
        return value is not None
    if kind == "null?":
        return True
    expected = {"datetime": datetime.datetime, "int": int}.get(kind)
    if kind == "guid":
        return isinstance(value, uuid.UUID) or (isinstance(value, str) and len(value) == 36)
    if expected is None:
        raise ValueError(f"unknown pattern <{kind}>")
    return isinstance(value, expected)


def text_of(value: object) -> str:
    """A value as the cases write it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, str) and value.lower().startswith("0x"):
        return "0x" + value[2:].upper()
    return str(value)


def type_of(description: tuple[Any, ...]) -> str:
    """A column of ``cursor.description`` as the cases write it."""
    _, python_type, _, size, precision, scale, _ = description
    name: str = python_type.__name__
    if name in {"str", "bytes", "bytearray"}:
        name = f"{name.replace('bytearray', 'bytes')}({size})"
    elif name in {"Decimal", "datetime"}:
        name = f"{name}({precision},{scale})"
    return name
