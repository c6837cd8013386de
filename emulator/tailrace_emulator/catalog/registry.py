"""How system views declare themselves: columns as text, rows as a function.

A declaration says what a column holds where nothing else is said, so that a row is written as what
is particular about it::

    _SERVERS = Columns("server_id int!, name sysname!, product sysname! = 'SQL Server'")

    @view("sys.servers", _SERVERS)
    def _servers(context, database):
        yield _SERVERS.row(server_id=0, name="TAILRACE")
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    DATETIME,
    INT,
    MAX,
    SMALLINT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    StorageValue,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

Row = tuple[StorageValue, ...]
RowProducer = Callable[["SessionContext", "Database"], Iterable[Row]]

_PLAIN: Final[dict[str, SqlType]] = {
    "sysname": SYSNAME,
    "int": INT,
    "bigint": BIGINT,
    "smallint": SMALLINT,
    "tinyint": TINYINT,
    "bit": BIT,
    "datetime": DATETIME,
    "uniqueidentifier": UNIQUEIDENTIFIER,
    "float": SqlType("float", precision=53),
    "real": SqlType("real", precision=24),
    "xml": SqlType("xml"),
    "sql_variant": SqlType("sql_variant"),
}
_SIZED: Final = re.compile(r"(\w+)\((\d+|max)\)")


def parse_type(text: str) -> SqlType:
    """A type as the declarations here write it, such as ``nvarchar(60)``."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    match = _SIZED.fullmatch(text)
    if match is None:
        raise ValueError(f"unknown type {text!r} in a system view's declaration")
    name = match[1]
    size = MAX if match[2] == "max" else int(match[2])
    if name == "nvarchar":
        return nvarchar(size)
    if name == "varchar":
        return varchar(size)
    if name == "varbinary":
        return varbinary(size)
    if name == "numeric":
        return SqlType(name, precision=size)
    if name in {"datetimeoffset", "datetime2"}:
        return SqlType(name, scale=size)
    if name in {"char", "nchar"}:
        return SqlType(name, length=size, collation=SYSNAME.collation)
    return SqlType(name, length=size)


def _split(text: str) -> Iterator[tuple[ColumnMeta, str]]:
    """Each column of a declaration, and its default as it is written there."""
    for item in text.replace("\n", " ").split(","):
        column, _, default = item.partition("=")
        name, _, declared = column.strip().partition(" ")
        plain = declared.strip()
        yield ColumnMeta(name, parse_type(plain.rstrip("!")), not plain.endswith("!")), default


def parse_columns(text: str) -> tuple[ColumnMeta, ...]:
    """Column declarations separated by commas: ``name type``, with ``!`` after it for NOT NULL."""
    return tuple(column for column, _ in _split(text))


class Columns:
    """The columns of a view, and what makes its rows.

    Args:
        text: as :func:`parse_columns` reads it; ``= literal`` after a column's type is its default.
            A column that may be NULL has the default NULL without that.
        base: other columns that stand before these.

    Attributes:
        row: makes a row of values by column name (``class_`` for a column named class). With a
            base, the base's row comes first. TypeError for a name that is none, and without a
            value for a column that has no default.
    """

    def __init__(self, text: str, base: Columns | None = None) -> None:
        own = list(_split(text))
        self.meta: tuple[ColumnMeta, ...] = (
            *(base.meta if base is not None else ()),
            *(column for column, _ in own),
        )
        self.row: Callable[..., Row] = _row_maker(own, has_base=base is not None)

    def extended(self, text: str) -> Columns:
        """These columns and more of them; its ``row`` takes a row of these first."""
        return Columns(text, self)


def _row_maker(columns: list[tuple[ColumnMeta, str]], *, has_base: bool) -> Callable[..., Row]:
    """A function with a keyword for each column.

    It is compiled from text, as :func:`collections.namedtuple` does. A row by name then costs what
    a tuple costs, which matters with ten thousand rows of sys.columns.
    """
    names = [f"{c.name}_" if keyword.iskeyword(c.name) else c.name for c, _ in columns]
    defaults: dict[str, StorageValue] = {}
    parameters = ["base"] if has_base else []
    parameters.append("*")
    for name, (column, default) in zip(names, columns, strict=True):
        if default or column.nullable:
            defaults[name] = ast.literal_eval(default.strip()) if default else None
            parameters.append(f"{name}=_defaults[{name!r}]")
        else:
            parameters.append(name)
    values = ["*base"] if has_base else []
    made = f"def row({', '.join(parameters)}):\n    return ({', '.join([*values, *names])},)"
    scope: dict[str, Any] = {"_defaults": defaults}
    exec(made, scope)  # noqa: S102 -- of declarations in this package only
    maker: Callable[..., Row] = scope["row"]
    return maker


@dataclass(frozen=True, slots=True)
class SystemView:
    """A view of the catalog: its columns, and what yields its rows for a database.

    ``permission`` is what reading it needs in the database; empty for none.
    """

    schema: str
    name: str
    columns: tuple[ColumnMeta, ...]
    produce: RowProducer
    permission: str = ""

    def rows(self, context: SessionContext, database: Database) -> list[Row]:
        """All rows; tailrace_emulator.catalog.visibility has those that the session may see."""
        return list(self.produce(context, database))


class SystemViews:
    """Views that were declared together: the system's own, or those of an extension."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], SystemView] = {}
        """By (schema, name), casefolded."""

    def view(
        self, name: str, columns: str | Columns, permission: str = ""
    ) -> Callable[[RowProducer], RowProducer]:
        """Registers a function as the system view ``schema.name``."""
        meta = columns.meta if isinstance(columns, Columns) else parse_columns(columns)
        schema, _, plain = name.partition(".")

        def register(produce: RowProducer) -> RowProducer:
            self.by_name[schema.casefold(), plain.casefold()] = SystemView(
                schema, plain, meta, produce, permission
            )
            return produce

        return register


SYSTEM_VIEWS: Final = SystemViews()
"""The system's own."""
VIEWS: Final = SYSTEM_VIEWS.by_name
view = SYSTEM_VIEWS.view
