"""Runs READTEXT, WRITETEXT and UPDATETEXT.

Documented: TEXTPTR returns a pointer. Offsets and lengths are bytes of text and image and
characters of ntext; size 0 reads 4 KB. WRITETEXT and UPDATETEXT fire no triggers. What is added at
once to a column of a tracked table is limited by max text repl size, and the change is captured.
Message 7137 says that a tracked column refuses them: the reference document, which speaks of a
limit on them, decides here (inferred). Coarser: bytes of text are its characters, also in code
pages with several bytes for one.

https://learn.microsoft.com/sql/t-sql/queries/writetext-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import is_local_temporary
from tailrace_emulator.catalog.text_pointers import (
    POINTED_TYPES,
    POINTER_BYTES,
    TextPointer,
    unpack_pointer,
)
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.security.access import of_object
from tailrace_emulator.tsql.compile.access import require
from tailrace_emulator.tsql.compile.large_writes import spliced
from tailrace_emulator.tsql.compile.names import base_object
from tailrace_emulator.tsql.compile.targets import StoredTarget
from tailrace_emulator.tsql.functions.text_pointer import ROW_OF
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.tsql.syntax.text_statements import (
    PointedColumn,
    ReadText,
    UpdateText,
    WriteText,
)
from tailrace_emulator.values.results import ColumnMeta, Event, ResultSet, Rows, StatementDone
from tailrace_emulator.values.types import BIGINT, INT

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Column, Table
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.run.running import StatementRunner

READ_DEFAULT: Final = 4096
"""What size 0 reads."""
_ROW_VARIABLE: Final = "@$row"


class Place:
    """A column that a pointer was followed to."""

    def __init__(self, database: Database, table: Table, column: Column, rid: int) -> None:
        self.database = database
        self.table = table
        self.column = column
        self.rid = rid
        self.position = table.columns.index(column)


class TextRunner:
    """Runs the statements of text_statements.py for one session."""

    def __init__(self, interpreter: StatementRunner) -> None:
        self.interpreter = interpreter
        self.context = interpreter.context

    def methods(self) -> dict[type, Callable[[Any, Frame], Iterator[Event]]]:
        """What runs each statement."""
        return {ReadText: self._read, WriteText: self._write, UpdateText: self._update}

    def _read(self, node: ReadText, frame: Frame) -> Iterator[Event]:
        place = self._place(node.place, frame, "READTEXT", node.line)
        offset, size = self._number(node.offset, frame) or 0, self._number(node.size, frame) or 0
        value = self._value(place, frame, locked=node.is_locked)
        length = len(value)
        if not 0 <= offset <= length or size < 0 or offset + size > length:
            raise messages.error(7124, length)
        per_unit = 2 if place.column.type.name == "ntext" else 1
        end = offset + (size or READ_DEFAULT // per_unit)
        yield ResultSet((ColumnMeta(place.column.name, place.column.type),))
        yield Rows([(value[offset:end],)])
        self.context.rowcount = 1
        yield StatementDone("select", None if self.context.options.nocount else 1)

    def _write(self, node: WriteText, frame: Frame) -> Iterator[Event]:
        place = self._place(node.place, frame, "WRITETEXT", node.line)
        data = self.interpreter.evaluate(node.data, frame, place.column.type)
        yield from self._put(place, data, lambda _: data, "WRITETEXT", frame)

    def _update(self, node: UpdateText, frame: Frame) -> Iterator[Event]:
        place = self._place(node.place, frame, "UPDATETEXT", node.line)
        offset, length = self._number(node.offset, frame), self._number(node.length, frame)
        data: Any = None
        if node.source is not None:
            source = self._place(node.source, frame, "UPDATETEXT", node.line)
            if source.column.type.name != place.column.type.name:
                raise not_supported("UPDATETEXT from a column of another type")
            data = self._value(source, frame)
        elif node.data is not None:
            data = self.interpreter.evaluate(node.data, frame, place.column.type)

        def changed(old: Any) -> Any:
            return spliced(old, offset, length, data)

        yield from self._put(place, data, changed, "UPDATETEXT", frame)

    def _put(
        self, place: Place, data: Any, changed: Callable[[Any], Any], command: str, frame: Frame
    ) -> Iterator[Event]:
        """Replaces a value by what ``changed`` makes of it; ``data`` is what is added."""
        context, table, rid = self.context, place.table, place.rid
        require(context, frame.chain, of_object(place.database, table), "UPDATE")
        context.engine.extension.extending(place.database, table, place.column, data)
        target = StoredTarget(table, place.database)

        def body() -> int:
            context.store.lock_rows(table, [rid])
            row = target.read(context, [rid]).get(rid)
            if row is None:
                raise invalid_pointer(place)
            new = list(row)
            new[place.position] = changed(row[place.position])
            return context.store.update(table, [(rid, tuple(new))])

        self.context.rowcount = context.store.run(body, command)
        yield StatementDone("other", None)

    # Pointers -----------------------------------------------------------------------------------

    def _place(self, node: PointedColumn, frame: Frame, statement: str, line: int) -> Place:
        """The column that a pointer leads to.

        Raises:
            SqlError: 208, 207; 7122, 7123, 7125, 7133 for a pointer that leads nowhere; 50900.
        """
        if is_local_temporary(node.table[-1]):
            raise not_supported(f"{statement} of a temporary table")
        where = base_object(self.context, node.table, line)
        table = where.database.table(where.schema, where.name)
        if table is None:
            raise messages.error(208, ".".join(node.table), line=line, aborts=Aborts.STATEMENT)
        column = table.column(node.column)
        if column is None:
            raise messages.error(207, node.column, line=line, aborts=Aborts.STATEMENT)
        plan, sql_type = self.interpreter.planner.scalar(node.pointer, frame)
        value = self.interpreter.queries.scalar(plan, frame)
        if value is None:
            raise messages.error(7133, statement)
        if sql_type.name not in {"binary", "varbinary"} or not isinstance(value, bytes):
            raise messages.error(7122)
        pointer = unpack_pointer(value.ljust(POINTER_BYTES, b"\0")[:POINTER_BYTES])
        place = Place(where.database, table, column, pointer.rid)
        expected = TextPointer(
            pointer.rid, table.object_id, column.column_id, where.database.database_id
        )
        if column.type.name not in POINTED_TYPES or expected.pack() != value:
            if pointer.object_id == table.object_id:
                raise messages.error(7125)
            raise messages.error(7123, f"0x{value.hex().upper()}")
        return place

    def _value(self, place: Place, frame: Frame, *, locked: bool = False) -> Any:
        """The value at a place, read as a query would.

        Raises:
            SqlError: 7123 when its row is gone or it is NULL.
        """
        parts = (place.database.name, place.table.schema, place.table.name)
        table = ".".join(_quoted(part) for part in parts)
        column = _quoted(place.column.name)
        hint = " WITH (HOLDLOCK)" if locked else ""
        query = parse_expression(
            f"(SELECT {column} FROM {table}{hint} WHERE [{ROW_OF}]({column}) = {_ROW_VARIABLE})"
        )
        frame.declare(_ROW_VARIABLE, BIGINT, place.rid)
        plan, _ = self.interpreter.planner.scalar(query, frame)
        value = self.interpreter.queries.scalar(plan, frame)
        if value is None:
            raise invalid_pointer(place)
        return value

    def _number(self, node: Any, frame: Frame) -> int | None:
        value = self.interpreter.evaluate(node, frame, INT)
        return value if isinstance(value, int) else None


def invalid_pointer(place: Place) -> SqlError:
    """7123: the row is not there any more."""
    pointer = TextPointer(
        place.rid, place.table.object_id, place.column.column_id, place.database.database_id
    )
    return messages.error(7123, f"0x{pointer.pack().hex().upper()}")


def _quoted(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"
