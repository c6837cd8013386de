"""Runs triggers: inside the statement that fires them, once for each of its events.

A trigger's statements belong to the transaction of the statement that fired it. They run after that
statement's own changes and before its end, and are logged after these changes, under one commit
LSN. SET XACT_ABORT is ON in a trigger, so an error that it does not handle ends the batch and rolls
the transaction back. A trigger may end the transaction itself. It then runs on, each of its
statements for itself, and the batch ends after it with error 3609.

https://learn.microsoft.com/sql/t-sql/statements/create-trigger-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.storage.cascades import Cascade
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.access import acting_as, chain_of
from tailrace_emulator.tsql.compile.firing import Firing
from tailrace_emulator.tsql.compile.targets import StoredTarget
from tailrace_emulator.tsql.compile.triggered_target import TriggeredTarget, Written
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.parser import parse_module
from tailrace_emulator.tsql.syntax.statements import Delete, Merge, Statement, Update
from tailrace_emulator.values.results import Event

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.targets import Target
    from tailrace_emulator.tsql.definition.running import Runner
    from tailrace_emulator.tsql.syntax.statements import Assignment


def events_of(node: Statement) -> tuple[str, ...]:
    """The events of a data statement; a MERGE has those of its clauses, whatever they find."""
    if isinstance(node, Merge):
        return tuple(dict.fromkeys(clause.action for clause in node.clauses))
    names: dict[type, str] = {Update: "UPDATE", Delete: "DELETE"}
    return (names.get(type(node), "INSERT"),)  # INSERT, or a bulk load that fires triggers


def _assignments(node: Statement) -> Sequence[Assignment]:
    """What a statement sets."""
    if isinstance(node, Update):
        return node.assignments
    if isinstance(node, Merge):
        return [a for clause in node.clauses for a in clause.assignments]
    return ()


def set_columns(node: Statement, table: Table) -> frozenset[int]:
    """Ids of the columns that a statement's SET names."""
    names = [a.column[-1] for a in _assignments(node) if a.column]
    found = [table.column(name) for name in names]
    return frozenset(column.column_id for column in found if column is not None)


def refuse_output(target: Target, node: Statement) -> None:
    """OUTPUT without INTO does not go with triggers; nor does MERGE with INSTEAD OF here.

    Raises:
        SqlError: 334 for a target with triggers.
    """
    if not isinstance(target, TriggeredTarget):
        return
    output = getattr(node, "output", None)
    firing = any(t.fires_on(event) for t in target.triggers for event in events_of(node))
    if output is not None and output.into is None and firing:
        shown = messages.dotted(node.target.name)  # type: ignore[attr-defined]
        raise messages.error(334, shown, line=node.line)


class TriggerRunner:
    """Fires the triggers of one session's statements."""

    def __init__(self, interpreter: Runner) -> None:
        self.interpreter = interpreter
        self.context = interpreter.context
        self.workspace = interpreter.workspace

    def fire(
        self,
        target: Target,
        node: Statement,
        cascades: Sequence[Cascade],
        count: int,
        frame: Frame,
        events: list[Event],
    ) -> None:
        """After a statement's changes, inside of it.

        Args:
            cascades: what foreign keys changed in other tables because of it.
            count: @@ROWCOUNT as the triggers find it.
            frame: whose statement it is.
            events: gets what the triggers send the client.

        Raises:
            SqlError: 3609, 3616, 217, and what ends a trigger.
        """
        # The deepest cascade's triggers come first, those of the statement's own table last.
        for cascade in reversed(_together(cascades)):
            self._fire_cascade(cascade, count, frame, events)
        if not isinstance(target, TriggeredTarget):
            return
        written = target.take()
        columns = set_columns(node, target.table)
        for event in events_of(node):
            rows = written.get(event, Written())
            for trigger in target.firing(event):
                firing = Firing(
                    target.table, event, rows.inserted, rows.deleted, columns, trigger.is_instead_of
                )
                if trigger.is_instead_of or not target.is_replaced(event):
                    self._run(trigger, target.stored, firing, count, frame, events)

    def _fire_cascade(
        self, cascade: Cascade, count: int, frame: Frame, events: list[Event]
    ) -> None:
        database = self.context.engine.database_by_id(cascade.table.database_id)
        if database is None:
            return
        triggers = database.triggers(cascade.table.object_id)
        stored = StoredTarget(cascade.table, database)
        target = TriggeredTarget(stored, tuple(triggers), self.workspace)
        for trigger in target.firing(cascade.event):
            if not trigger.is_instead_of:
                firing = Firing(
                    cascade.table,
                    cascade.event,
                    cascade.inserted,
                    cascade.deleted,
                    cascade.column_ids,
                )
                self._run(trigger, stored, firing, count, frame, events)

    def _run(
        self,
        trigger: Module,
        target: StoredTarget,
        firing: Firing,
        count: int,
        caller: Frame,
        events: list[Event],
    ) -> None:
        """One trigger, to its end."""
        statement = parse_module(trigger.text, trigger.uses_quoted_identifier)
        made = known(statement if isinstance(statement, CreateModule) else None, "trigger")
        body = known(made.body, "body of a trigger")
        procedures = self.interpreter.procedures
        frame = procedures.frame(caller, trigger.name)
        frame.trigger = firing
        frame.chain = chain_of(target.database, trigger)
        frame.module_id = trigger.object_id
        context = self.context
        context.rowcount = count
        self.workspace.triggers.append(trigger)
        try:
            with (
                context.store.trigger() as has_ended,
                procedures.inside(target.database),
                acting_as(context, target.database, trigger, made.execute_as),
            ):
                options = context.options
                context.options = options.changed("xact_abort", True)
                try:
                    self._drain(procedures.run_body(body, frame, trigger), events)
                finally:
                    context.options = options
                if has_ended():
                    if context.store.trancount == 0:
                        raise _ended_in_trigger()
                elif self.workspace.doomed:
                    raise _doomed_in_trigger()
        except SqlError as error:
            # Even one that a TRY around the statement catches leaves nothing to commit.
            if error.number != 3609:
                error.aborts = Aborts.TRANSACTION
            raise
        finally:
            self.workspace.triggers.pop()

    def _drain(self, running: Iterator[Event], events: list[Event]) -> None:
        """Runs a trigger's statements; their results wait for the end of the statement."""
        events.extend(running)


def _together(cascades: Sequence[Cascade]) -> list[Cascade]:
    """One cascade for each table and event, in the order in which they came first."""
    found: dict[tuple[int, str], Cascade] = {}
    for cascade in cascades:
        key = (cascade.table.object_id, cascade.event)
        known = found.get(key)
        if known is not None:
            cascade = replace(  # noqa: PLW2901
                known,
                inserted=[*known.inserted, *cascade.inserted],
                deleted=[*known.deleted, *cascade.deleted],
                column_ids=known.column_ids | cascade.column_ids,
            )
        found[key] = cascade
    return list(found.values())


def _ended_in_trigger() -> SqlError:
    """3609."""
    return messages.error(3609)


def _doomed_in_trigger() -> SqlError:
    """3616."""
    return messages.error(3616)
