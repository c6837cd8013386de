"""BEGIN, COMMIT, ROLLBACK and SAVE TRANSACTION of one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.syntax.statements import Transaction
from tailrace_emulator.values.results import Event, TransactionChanged

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace


class Transactions:
    """The store's transactions, reported to the client, with the session's local tables in them."""

    def __init__(
        self, context: SessionContext, workspace: Workspace, close_cursors: Callable[[], None]
    ) -> None:
        self.context = context
        self.workspace = workspace
        self._close_cursors = close_cursors

    def begin(self, name: str | None = None) -> Iterator[Event]:
        """BEGIN TRANSACTION; the name of the outermost one is kept for its ROLLBACK."""
        store = self.context.store
        if store.trancount == 0:
            self.context.transaction_name = name
        store.begin()
        if store.trancount == 1:
            yield TransactionChanged("began", store.descriptor)

    def commit(self) -> Iterator[Event]:
        """COMMIT.

        Raises:
            SqlError: 3902, 3930, and what storage refuses.
        """
        store = self.context.store
        if self.workspace.doomed and store.trancount:
            raise messages.error(3930)
        descriptor, outermost = store.descriptor, store.trancount == 1
        try:
            store.commit()
        except SqlError:
            if outermost:
                self._local_tables_rolled_back()
                yield TransactionChanged("rolled_back", descriptor)
            raise
        if outermost:
            if self.context.options.cursor_close_on_commit:
                self._close_cursors()
            for table in self.workspace.temporary.values():
                table.forget_copies()
                table.is_new = False
            yield TransactionChanged("committed", descriptor)

    def rollback(self) -> Iterator[Event]:
        """ROLLBACK of everything."""
        store = self.context.store
        descriptor = store.descriptor
        store.rollback()
        if self.context.options.cursor_close_on_commit:
            self._close_cursors()
        self.workspace.doomed = False
        self._local_tables_rolled_back()
        yield TransactionChanged("rolled_back", descriptor)

    def _local_tables_rolled_back(self) -> None:
        temporary = self.workspace.temporary
        for name in [name for name, table in temporary.items() if table.is_new]:
            temporary.pop(name).drop()
            self.workspace.local_version += 1
        for table in temporary.values():
            table.restore()

    def run(self, node: Transaction, frame: Frame) -> Iterator[Event]:
        """One of the four statements."""
        name = node.name
        if node.variable is not None:
            value = frame.values.get(node.variable.casefold())
            name = str(value) if value is not None else None
        if node.action == "BEGIN":
            yield from self.begin(name)
        elif node.action == "COMMIT":
            yield from self.commit()
        elif node.action == "SAVE":
            self._refuse_doomed()
            self.context.store.savepoint(name or "")
        elif name is None or (
            name.casefold() == (self.context.transaction_name or "").casefold()
            and self.context.store.trancount
        ):
            yield from self.rollback()
        else:
            self._refuse_doomed()
            store = self.context.store
            store.rollback_to(name)
            for table in self.workspace.temporary.values():
                table.restore(len(store.savepoint_names))

    def _refuse_doomed(self) -> None:
        """3931: a transaction that cannot be committed can only be rolled back as a whole."""
        if self.workspace.doomed and self.context.store.trancount:
            raise messages.error(3931)
