"""The tables of docs/contract.md, generated from the schemas of the topics.

``python -m tailrace.reference.contract docs/contract.md`` writes them between the marks of the
page, and leaves the text around them. A test compares. A field without a meaning here, or a meaning
without a field, is an error: the page describes exactly what is written.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tailrace.reference.contract_fields import (
    ATTRIBUTES,
    ENVELOPE,
    LETTER,
    OPERATIONS,
    PROGRESS,
    SCHEMA_CHANGE,
    SOURCE,
    TOPICS,
    TRANSACTION,
)
from tailrace_publisher.encode.event_kinds import HAS_AFTER, HAS_BEFORE, OP, Kind
from tailrace_schemas.events.column_types import SCALARS, ColumnType, avro_type
from tailrace_schemas.events.envelope import (
    ENVELOPE_FIELDS,
    SOURCE_SCHEMA,
    SchemaColumn,
    TableSchema,
    envelope_schema,
)
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_schemas.records.schema_changes import SCHEMA_CHANGE_SCHEMA
from tailrace_schemas.records.transactions import BOUNDARY_SCHEMA
from tailrace_schemas.topics.topic_names import TableName, TopicNames

_BLOCK: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PARAMETERS: Final = {
    "char": ColumnType("char", length=10),
    "varchar": ColumnType("varchar", length=10),
    "nchar": ColumnType("nchar", length=10),
    "nvarchar": ColumnType("nvarchar", length=10),
    "binary": ColumnType("binary", length=10),
    "varbinary": ColumnType("varbinary", length=10),
    "datetime2": ColumnType("datetime2", scale=7),
    "time": ColumnType("time", scale=7),
    "datetimeoffset": ColumnType("datetimeoffset", scale=7),
}
_OTHERS: Final = (
    ColumnType("decimal", precision=10, scale=2),
    ColumnType("numeric", precision=10, scale=2),
    ColumnType("float", precision=24),
    ColumnType("float", precision=53),
)


class UndescribedField(Exception):
    """A schema and the meanings of its fields differ."""


def rewritten(page: str) -> str:
    """The page with all of its tables generated again.

    Raises:
        UndescribedField: a field has no meaning, or a meaning no field.
        KeyError: a mark names no table.
    """
    return _BLOCK.sub(lambda mark: f"{mark[1]}{_TABLES[mark[2]]()}{mark[3]}", page)


def tables_of(page: str) -> list[str]:
    """The names of the generated tables of a page, in its order."""
    return [name for _, name, _ in _BLOCK.findall(page)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    begin = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*begin, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _described(names: Sequence[str], meanings: Mapping[str, Any]) -> None:
    if list(names) != list(meanings):
        differing = sorted(set(names) ^ set(meanings)) or ["their order"]
        raise UndescribedField(f"tailrace/reference/contract_fields.py: {', '.join(differing)}")


def _fields(
    fields: Iterable[Mapping[str, Any]], begin: str = "", inside: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Path and type of each field, depth first.

    Args:
        begin: path of the record.
        inside: paths of the records whose fields are listed, too.
    """
    for field in fields:
        path = f"{begin}{field['name']}"
        yield path, _type(field["type"])
        found = _record(field["type"])
        if path in inside and found is not None:
            yield from _fields(found["fields"], f"{path}.", inside)


def _record(declared: Any) -> dict[str, Any] | None:
    if isinstance(declared, list):
        return _record(declared[-1])
    if isinstance(declared, dict):
        return declared if declared["type"] == "record" else _record(declared.get("items"))
    return None


def _type(declared: Any) -> str:
    if isinstance(declared, list):
        return f"{_type(declared[-1])} or null"
    if isinstance(declared, str):
        return declared.rpartition(".")[2]
    if declared["type"] == "array":
        return f"array of {_type(declared['items'])}"
    if declared["type"] == "record":
        return str(declared["name"])
    if declared.get("logicalType") == "decimal":
        return "bytes, `decimal(precision, scale)`"
    logical = declared.get("logicalType")
    return f"{declared['type']}, `{logical}`" if logical else str(declared["type"])


def meanings(
    fields: Iterable[Mapping[str, Any]],
    described: Mapping[str, str],
    inside: frozenset[str] = frozenset(),
) -> str:
    """The table of a record's fields.

    Args:
        described: the meaning of each, by its path.
        inside: paths of the records whose fields are listed, too.

    Raises:
        UndescribedField: a field has no meaning, or a meaning no field.
    """
    found = dict(_fields(fields, inside=inside))
    _described(list(found), described)
    rows = ([f"`{path}`", kind, described[path]] for path, kind in found.items())
    return _table(["field", "Avro", "meaning"], rows)


def _topics() -> str:
    names = TopicNames("shop")
    listed = {
        "data": names.data(TableName("Shop", "dbo", "orders")),
        "progress": names.progress,
        "transaction": names.transaction,
        "ddl": names.ddl("Shop"),
        "dead_letters": names.dead_letters,
        "signals": names.signals,
        "offsets": names.offsets,
    }
    _described(list(listed), TOPICS)
    rows = ([f"`{topic}`", *TOPICS[name]] for name, topic in listed.items())
    return _table(["topic, with the prefix `shop`", "key", "value", "partitions"], rows)


def _operations() -> str:
    _described([kind.name for kind in Kind], OPERATIONS)
    rows = [
        [
            OPERATIONS[kind.name],
            f"`{OP[kind]}`",
            "yes" if kind in HAS_BEFORE else "null",
            "yes" if kind in HAS_AFTER else "null",
            str(int(kind.operation)),
        ]
        for kind in Kind
    ]
    return _table(["what happened", "`op`", "`before`", "`after`", "`source.operation`"], rows)


def _types() -> str:
    forms: dict[str, list[str]] = {}
    for column_type in (*(_PARAMETERS.get(name, ColumnType(name)) for name in SCALARS), *_OTHERS):
        shown = str(column_type) if column_type.name == "float" else column_type.name
        forms.setdefault(_type(avro_type(column_type)), []).append(f"`{shown}`")
    rows = ([", ".join(names), form] for form, names in forms.items())
    return _table(["SQL Server", "Avro"], rows)


def _attributes() -> str:
    transform = ColumnTransform(TransformKind.MASK, "*")
    key = SchemaColumn(1, "id", ColumnType("int"), key_ordinal=1)
    masked = SchemaColumn(2, "v", ColumnType("int"), transform=transform, ordinal=3)
    table = TableSchema(TableName("Shop", "dbo", "orders"), "i", Lsn.ZERO, (key, masked))
    envelope = envelope_schema("shop", table)
    avro = {"type", "name", "namespace", "fields", "default"}
    columns = envelope["fields"][0]["type"][1]["fields"]
    found = dict.fromkeys(
        name for part in (envelope, *columns) for name in part if name not in avro
    )
    _described(list(found), ATTRIBUTES)
    rows = (
        [f"`{name}`", "event" if name in envelope else "column", ATTRIBUTES[name]] for name in found
    )
    return _table(["attribute", "of", "meaning"], rows)


def _letters() -> str:
    letter = DeadLetter("", "", ChangePosition.of_snapshot(Lsn.ZERO), "", "")
    names = [name for name, _ in letter.headers()]
    _described(names, LETTER)
    return _table(["header", "meaning"], ([f"`{name}`", LETTER[name]] for name in names))


def _envelope() -> str:
    images = envelope_schema(
        "shop", TableSchema(TableName("Shop", "dbo", "orders"), "i", Lsn.ZERO, ())
    )["fields"][:2]
    return meanings([*images, *ENVELOPE_FIELDS], ENVELOPE, frozenset({"transaction"}))


_TABLES: Final = {
    "topics": _topics,
    "envelope": _envelope,
    "source": lambda: meanings(SOURCE_SCHEMA["fields"], SOURCE),
    "operations": _operations,
    "types": _types,
    "attributes": _attributes,
    "progress": lambda: meanings(
        PROGRESS_SCHEMA["fields"],
        PROGRESS,
        frozenset({"partitions", "partitions.operations", "patched"}),
    ),
    "transaction": lambda: meanings(
        BOUNDARY_SCHEMA["fields"], TRANSACTION, frozenset({"data_collections"})
    ),
    "ddl": lambda: meanings(SCHEMA_CHANGE_SCHEMA["fields"], SCHEMA_CHANGE, frozenset({"before"})),
    "dead_letters": _letters,
}

TABLES: Final = frozenset(_TABLES)
"""Names of the tables that the page must have."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tables of the page of the contract.")
    parser.add_argument("page", type=Path, help="docs/contract.md")
    path = parser.parse_args().page
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
