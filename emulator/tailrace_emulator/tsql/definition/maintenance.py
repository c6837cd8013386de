"""Statistics, ALTER INDEX and DBCC commands: what they name must exist; no more is done.

https://learn.microsoft.com/sql/t-sql/statements/update-statistics-transact-sql
https://learn.microsoft.com/sql/t-sql/statements/alter-index-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages import no_object
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage.model import Column, Statistics, Table
from tailrace_emulator.storage.object_details import put_statistics
from tailrace_emulator.tsql.compile.names import stored_table
from tailrace_emulator.tsql.definition.ignored_duplicates import alter_ignoring
from tailrace_emulator.tsql.definition.killing import kill_session
from tailrace_emulator.tsql.syntax.maintenance_statements import (
    AlterIndex,
    ConsoleCommand,
    CreateStatistics,
    DropStatistics,
    Kill,
    UpdateStatistics,
)
from tailrace_emulator.values.results import Event, Message

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.syntax.nodes import Name
    from tailrace_emulator.tsql.syntax.statements import Statement


class MaintenanceRunner:
    """Runs maintenance statements of one session."""

    def __init__(self, context: SessionContext) -> None:
        self.context = context

    def methods(self) -> dict[type, Callable[[Any, Frame], Iterator[Event]]]:
        """What runs which statement."""
        return {
            AlterIndex: self._alter_index,
            ConsoleCommand: self._console_command,
            CreateStatistics: self._create,
            UpdateStatistics: self._update,
            DropStatistics: self._drop,
            Kill: self._kill,
        }

    def _table(self, name: Name, node: Statement) -> tuple[Database | None, Table] | None:
        """The table of that name, a #temporary one without its database; None: there is none."""
        temporary = self.context.temporary.get(name[-1].casefold())
        if temporary is not None:
            return None, temporary.table
        try:
            return stored_table(self.context, name, node.line)
        except SqlError as error:
            if error.number != 208:
                raise
            return None

    def _create(self, node: CreateStatistics, _: Frame) -> Iterator[Event]:
        """CREATE STATISTICS.

        Raises:
            SqlError: 1088 no such table, 1911 no such column, 1927 a name that is taken.
        """
        yield from ()
        found = self._table(node.table, node)
        if found is None:
            raise no_object(messages.dotted(node.table))
        database, table = found
        columns = [self._column(table, name) for name in node.columns]
        if database is None:
            return
        known = database.state.statistics.get(table.object_id, ())
        names = [index.name for index in table.indexes] + [each.name for each in known]
        if node.name.casefold() in {name.casefold() for name in names}:
            raise messages.error(1927, messages.dotted(node.table), node.name)
        made = Statistics(
            node.name,
            tuple(column.column_id for column in columns),
            f"({node.filter})" if node.filter else "",
            node.no_recompute,
        )
        put_statistics(self.context.store, database, table.object_id, (*known, made))

    def _column(self, table: Table, name: str) -> Column:
        found = table.column(name)
        if found is None:
            raise messages.error(1911, name)
        return found

    def _update(self, node: UpdateStatistics, _: Frame) -> Iterator[Event]:
        """UPDATE STATISTICS.

        Raises:
            SqlError: 2706 no such table, 2767 no such statistics.
        """
        yield from ()
        found = self._table(node.table, node)
        if found is None:
            raise messages.error(2706, node.table[-1])
        database, table = found
        names = {index.name.casefold() for index in table.indexes}
        if database is not None:
            made = database.state.statistics.get(table.object_id, ())
            names |= {each.name.casefold() for each in made}
        for name in node.names:
            if name.casefold() not in names:
                raise messages.error(2767, name)

    def _drop(self, node: DropStatistics, _: Frame) -> Iterator[Event]:
        """DROP STATISTICS.

        Raises:
            SqlError: 3701 no such statistics, 3739 those of an index.
        """
        yield from ()
        for name in node.names:
            found = self._table(name[:-1], node)
            if found is None:
                raise messages.cannot_drop("statistics", messages.dotted(name))
            database, table = found
            if database is None:
                continue
            folded = name[-1].casefold()
            if any(index.name.casefold() == folded for index in table.indexes):
                raise messages.error(3739, "DROP", messages.dotted(name))
            known = database.state.statistics.get(table.object_id, ())
            kept = [each for each in known if each.name.casefold() != folded]
            if len(kept) == len(known):
                raise messages.cannot_drop("statistics", messages.dotted(name))
            put_statistics(self.context.store, database, table.object_id, kept)

    def _kill(self, node: Kill, _: Frame) -> Iterator[Event]:
        """KILL."""
        yield from ()
        kill_session(self.context, node)

    def _alter_index(self, node: AlterIndex, _: Frame) -> Iterator[Event]:
        """ALTER INDEX and ALTER TABLE .. REBUILD.

        Raises:
            SqlError: 1088 or 4902 no such table, 2727 no such index; what
                :func:`alter_ignoring` raises; 50900 for IGNORE_DUP_KEY of a temporary table.
        """
        yield from ()
        found = self._table(node.table, node)
        if found is None:
            shown = messages.dotted(node.table)
            raise messages.error(4902, shown) if node.of_table else no_object(shown)
        database, table = found
        if node.index is not None:
            folded = node.index.casefold()
            if all(index.name.casefold() != folded for index in table.indexes):
                raise messages.error(2727, node.index)
        if node.ignore_dup_key is None:
            return
        if database is None:
            raise not_supported("ALTER INDEX ... IGNORE_DUP_KEY of a temporary table")
        alter_ignoring(self.context, database, table, node, is_on=node.ignore_dup_key)

    def _console_command(self, node: ConsoleCommand, _: Frame) -> Iterator[Event]:
        """DBCC.

        Raises:
            SqlError: 50900 for a login that is not sysadmin: what each command requires is not
                known here.
        """
        if not self.context.security.is_sysadmin:
            raise not_supported(f"DBCC {node.name} of a login that is not sysadmin")
        if not node.silent:
            yield Message(2528, messages.text(2528), 0, 1, "", node.line)


def statistics_on(database: Database, table: Table, column: Column) -> list[str]:
    """The names of the statistics that users created on a column."""
    made = database.state.statistics.get(table.object_id, ())
    return [each.name for each in made if column.column_id in each.column_ids]
