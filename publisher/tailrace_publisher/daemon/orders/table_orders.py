"""Requests of operators for single tables: pause, resume, stop (ADR 0029).

A paused snapshot keeps its place and continues from there. A stopped snapshot is given up: its
changes continue, but its table stays out of the cut, because only a part of it is published. A new
snapshot starts from scratch. A stopped table is not published at all.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import UNREAD, TableEvent, TableState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.sql_condition import check_condition, shape_of
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.keyed_rows import identifies_rows
from tailrace_publisher.snapshot.statements import check_statement
from tailrace_publisher.source.connection.server_errors import without_literals
from tailrace_publisher.source.log.queries import INVALID_OBJECT
from tailrace_schemas.records.signals import RowKeys, TableOrder

_log = structlog.get_logger(__name__)


def refusal_of(order: TableOrder, record: TableRecord) -> str | None:
    """Return why an order does not apply to a table; None if it does."""
    is_unread, state = record.state in UNREAD, record.state
    match order:
        case TableOrder.STOP_TABLE:
            return "it is stopped already" if state is TableState.STOPPED else None
        case TableOrder.RESUME_SNAPSHOT if state is TableState.HALTED:
            return "its snapshot was stopped: request a new one (tailrace snapshot)"
        case TableOrder.STOP_SNAPSHOT if record.repairs_lost_rows:
            return (
                "its rows are read again after tailrace accept-database, without which it may"
                " differ from the database: pause it, or request a new snapshot (tailrace snapshot)"
            )
        case TableOrder.STOP_SNAPSHOT if state is TableState.HALTED:
            return "its snapshot is stopped already"
        case _ if not is_unread:
            return "no snapshot of it is being read"
        case TableOrder.PAUSE_SNAPSHOT if record.snapshot_paused:
            return "its snapshot is paused already"
        case TableOrder.RESUME_SNAPSHOT if not record.snapshot_paused:
            return "its snapshot is not paused"
    return None


def partial_refusal_of(record: TableRecord) -> str | None:
    """Return why a table cannot have a partial snapshot now; None if it can.

    A partial snapshot adds rows to a whole table. If the published table is not whole, only a whole
    snapshot can make it so. A reader takes what a named table brings for the whole table.
    """
    match record.state:
        case TableState.FOLLOWED:
            return None
        case TableState.REREADING:
            return "one is being read: wait, or stop it (tailrace snapshot --stop)"
        case TableState.PENDING | TableState.SNAPSHOTTING:
            return "its snapshot is being read: request it again when that is over"
        case TableState.MISSING | TableState.FOUND:
            return "nothing of it is published yet: request it again after its snapshot"
        case state:
            return f"it is {state.value}: request a whole snapshot, without a condition"


class TableOrders:
    """Execution of orders, which changes the publisher's state.

    Args:
        control: connection that checks conditions, and whether rows may be read as they are.
    """

    def __init__(self, tables: PublishedTables, state: PublisherState, control: Connection) -> None:
        self._tables = tables
        self._state = state
        self._control = control

    def read_all(self, table: PublishedTable) -> str | None:
        """Take a new snapshot of a table; call this at a closed position.

        Returns:
            Why it was refused; None if it started.

        Raises:
            TableFailed: Kafka refuses its topic.
            PublisherError: a system did not answer, or refused.
        """
        refusal = self._tables.rows_refusal(table, self._control)
        if refusal is None:
            self._tables.resnapshot(table)
        return refusal

    def read_part(self, table: PublishedTable, where: str) -> str | None:
        """Start a partial snapshot with a condition; call this at a closed position.

        Returns:
            Why it was refused; None if it started.

        Raises:
            SourceError: the server did not answer.
        """
        newest = table.instances.newest
        refusal = partial_refusal_of(self._state.of(table.name))
        if refusal is None and not (newest.identity and newest.key):
            refusal = (
                "it has no key, so its rows would be duplicated: request a whole snapshot, or name"
                " its key columns in message_keys"
            )
        refusal = refusal or self._tables.rows_refusal(table, self._control)
        refusal = refusal or self._condition_refusal(newest, where)
        if refusal is None:
            self._tables.start_partial_snapshot(table, where)
        return refusal

    def repair(self, table: PublishedTable, rows: RowKeys) -> str | None:
        """Start to publish some rows again as they are; call this at a closed position.

        Returns:
            Why it was refused; None if it started.

        Raises:
            SourceError: the server did not answer.
        """
        refusal = partial_refusal_of(self._state.of(table.name))
        if refusal is None and not identifies_rows(table.instances.newest, rows.columns):
            names = ", ".join(rows.columns)
            refusal = f"its rows are not identified by {names}: request a whole snapshot"
        refusal = refusal or self._tables.rows_refusal(table, self._control)
        if refusal is None:
            self._tables.start_repair(table, rows)
        return refusal

    def _condition_refusal(self, instance: CaptureInstance, where: str) -> str | None:
        try:
            check_condition(where)
            self._control.query(check_statement(instance, where), 0)
        except ValueError as error:
            return f"its condition ({shape_of(where)}): {error}"
        except SourceError as error:
            if error.retryable:
                raise
            reason = without_literals(error)
            if error.number == INVALID_OBJECT:
                return (
                    "the table, or another object that its condition names, is not there, perhaps"
                    f" because it was just renamed: {reason}"
                )
            return f"the server refuses its condition ({shape_of(where)}): {reason}"
        return None

    def carry_out(self, order: TableOrder, table: PublishedTable) -> str | None:
        """Carry out an order for a table; call this at a closed position.

        Returns:
            Why it was refused; None if it was carried out.
        """
        record = self._state.of(table.name)
        refusal = refusal_of(order, record)
        if refusal is not None:
            return refusal
        match order:
            case TableOrder.PAUSE_SNAPSHOT | TableOrder.RESUME_SNAPSHOT:
                is_paused = order is TableOrder.PAUSE_SNAPSHOT
                self._state.store(table.name, replace(record, snapshot_paused=is_paused))
                if is_paused:
                    _log.info("snapshot_paused", table=str(table.name), rows=record.snapshot_rows)
                else:
                    _log.info("snapshot_resumed", table=str(table.name), rows=record.snapshot_rows)
            case TableOrder.STOP_SNAPSHOT if self._tables.stop_partial_snapshot(table.name):
                _log.warning(
                    "partial_snapshot_stopped",
                    table=str(table.name),
                    rows=record.snapshot_rows,
                    effect="some of its rows are published, others not; its changes continue, and"
                    " it stays part of the lake's cuts",
                )
            case TableOrder.STOP_SNAPSHOT:
                given_up = replace(record, snapshot_fence=None, resume_key=None)
                self._state.happened(table.name, TableEvent.SNAPSHOT_STOPPED, given_up)
                _log.warning(
                    "snapshot_stopped",
                    table=str(table.name),
                    rows=record.snapshot_rows,
                    effect="its changes continue; it is not part of the lake's cuts",
                    fix=f"tailrace snapshot '{table.name.schema}.{table.name.table}' takes a new"
                    " one",
                )
            case TableOrder.STOP_TABLE:
                self._tables.stop(table)
        return None

    def carry_out_of_all(self, order: TableOrder) -> None:
        """Carry out an order for every table that it applies to."""
        for table in list(self._tables):
            self.carry_out(order, table)
