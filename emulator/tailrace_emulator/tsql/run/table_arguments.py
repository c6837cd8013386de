"""Table-valued parameters: a table variable that a caller lends, or rows that a client sent.

https://learn.microsoft.com/sql/relational-databases/tables/use-table-valued-parameters-database-engine
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.tsql.compile.user_types import find_type, table_shape
from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
from tailrace_emulator.tsql.syntax.nodes import VariableTable
from tailrace_emulator.values.results import TableRows

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.arguments import Given
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.run.running import StatementRunner
    from tailrace_emulator.tsql.syntax.type_names import NamedType


def take_table(
    interpreter: StatementRunner,
    database: Database,
    frame: Frame,
    parameter: tuple[str, NamedType],
    given: Given | None,
) -> None:
    """Gives a frame the table of one of its parameters; without an argument it is empty.

    Args:
        database: where the type is.
        frame: of the procedure or text that has the parameter.
        parameter: its name and type.

    Raises:
        SqlError: 206 the argument is no table of that type; 500 and 2715 and the errors of
            constraints for rows that a client sent.
    """
    name, named = parameter
    folded = name.casefold()
    shape = table_shape(database, named)
    table = None if given is None else given.table
    frame.read_only.add(folded)
    interpreter.workspace.local_version += 1
    if table is not None and not isinstance(table, TableRows):
        if table.user_type_id != shape.user_type.user_type_id:
            raise clash("table", shape.user_type.name)
        frame.tables[folded] = table
        frame.borrowed.add(folded)
        return
    if given is not None and table is None and not given.is_default:
        raise clash(given.type.name, shape.user_type.name)
    frame.tables[folded] = local = interpreter.definer.typed_variable(name, shape, frame)
    if table is not None:
        _check_type(database, table, shape.user_type.user_type_id, shape.user_type.name)
        if table.types and len(table.types) != len(local.table.columns):
            raise messages.error(500, len(table.types), len(local.table.columns))
        _fill(interpreter, frame, name, table)


def _check_type(database: Database, table: TableRows, wanted: int, name: str) -> None:
    """Rows say of which type they are; a call of a procedure may leave it out."""
    if not table.type_name[-1]:
        return
    found = find_type(database, table.type_name)
    if found is None:
        shown = ".".join(part for part in table.type_name if part)
        raise messages.error(2715, 1, shown)
    if found.user_type_id != wanted:
        raise clash(found.name, name)


def _fill(interpreter: StatementRunner, frame: Frame, name: str, sent: TableRows) -> None:
    """Inserts the rows that a client sent: columns that it left to their defaults are not given."""
    columns = frame.tables[name.casefold()].table.columns
    given = [place for place in range(len(columns)) if place not in sent.defaults]
    if not sent.rows:
        return
    node = InsertBulk(
        VariableTable(name),
        tuple(columns[place].name for place in given),
        frozenset({"KEEP_NULLS"}),
        [sent.types[place] for place in given],
        [tuple(row[place] for place in given) for row in sent.rows],
    )
    frame.read_only.discard(name.casefold())
    context = interpreter.context
    rowcount = context.rowcount
    try:
        for _ in interpreter.data.bulk_load(node, frame):
            pass
    finally:
        frame.read_only.add(name.casefold())
        context.rowcount = rowcount


def clash(given: str, wanted: str) -> SqlError:
    """206."""
    return messages.error(206, given, wanted, state=2, aborts=Aborts.STATEMENT)
