"""Snapshots beside a stream, in threads that run when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.fence import Fence, FenceSource
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pauses import Pauses
from tailrace_publisher.snapshot.pending import PendingTable, SnapshotPart
from tailrace_publisher.snapshot.snapshots import Snapshots
from tailrace_publisher.snapshot.table_reader import ChunkLimits
from tailrace_publisher.source.pages.page_size import PageLimit
from tailrace_schemas.position.lsn import Lsn
from tests.unit.publisher.snapshot.table_source import (
    START,
    Row,
    TableSource,
    at,
    behind,
    encoder_of,
    instance_of,
    pending,
)

MEGABYTE = 1_000_000


class Tasks(Executor):
    """A thread that runs when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self, count: int = 1000) -> None:
        for _ in range(min(count, len(self.waiting))):
            future, call = self.waiting.pop(0)
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)


@dataclass
class Fences:
    """Marks are numbered by their LSN; the test says how far the capture process is."""

    log_end: Lsn = START
    captured: Lsn = START
    asked: int = 0

    def mark(self, position: Lsn, read_to: Lsn | None = None) -> Fence:
        end = max(self.log_end, read_to or self.log_end)
        return Fence(end, datetime(2026, 1, 1), position, None)  # noqa: DTZ001

    def reached(self, fence: Fence) -> Lsn | None:
        self.asked += 1
        assert fence.log_end is not None
        return self.captured if self.captured >= fence.log_end else None


@dataclass
class Beside:
    """Snapshots of tables, each in a source of its own, beside a stream at a position."""

    sources: dict[str, TableSource]
    tables: dict[str, PendingTable]
    chunk: PageLimit = field(default_factory=lambda: PageLimit(10, MEGABYTE))
    size_max: int = 100 * MEGABYTE
    lanes: int = 1
    position: Lsn = START
    now: float = 0.0

    def __post_init__(self) -> None:
        self.fences = Fences()
        self.threads = [Tasks() for _ in range(self.lanes)]
        self.opened: list[TableSource] = []
        self.snapshots = Snapshots(
            cast(FenceSource, self.fences),
            [Lane(thread, self._connect, SnapshotConfig()) for thread in self.threads],
            ChunkLimits(self.chunk, self.size_max),
            self.size_max,
            Pauses(30.0, lambda: self.now),
        )
        self.published: list[SnapshotPart] = []

    def _connect(self) -> Connection:
        # Every table is in the one source where there is only one; else by its statements.
        source = next(iter(self.sources.values()))
        opened = replace(source) if len(self.sources) > 1 else source
        if len(self.sources) > 1:
            opened.query = self._by_table  # type: ignore[method-assign]
        self.opened.append(opened)
        return opened.as_connection()

    def _by_table(self, sql: str, *parameters: Any) -> list[Any]:
        for table, source in self.sources.items():
            if f"[{table}]" in sql:
                return source.query(sql.replace(f"[{table}]", "[t]"), *parameters)
        return next(iter(self.sources.values())).query(sql, *parameters)

    def encoder_of(self, table: PendingTable) -> EnvelopeEncoder | None:
        current = self.tables.get(table.name.table)
        return None if current is None else encoder_of(current)

    def turn(self, *, begins: bool = True) -> list[SnapshotPart]:
        """One turn of the main loop."""
        waiting = list(self.tables.values())
        self.snapshots.settle(waiting)
        self.snapshots.look(self.position)
        parts = list(self.snapshots.take(self.position, 0, self.encoder_of))
        for part in parts:
            self.tables[part.table.name.table] = behind(
                self.tables[part.table.name.table], part.progress
            )
            if part.progress.is_over:
                del self.tables[part.table.name.table]
        self.published += parts
        if begins and self.tables:
            self.snapshots.settle(list(self.tables.values()))
            self.snapshots.begin(list(self.tables.values()), self.position, self.encoder_of)
        return parts

    def run(self, turns: int = 50) -> None:
        """Turn until everything is published."""
        for _ in range(turns):
            if not self.tables:
                return
            for thread in self.threads:
                thread.run()
            self.turn()
        raise AssertionError(f"not published: {list(self.tables)}")

    def pass_fences(self) -> None:
        self.come_to(max(self.fences.log_end, self.position))

    def come_to(self, lsn: Lsn) -> None:
        """Everything up to an LSN is captured and out."""
        self.fences.captured = self.position = lsn
        for source in self.sources.values():
            source.newest = lsn


def one_table(count: int = 35, **more: Any) -> Beside:
    rows: list[Row] = [(0, number, 0, "x") for number in range(count)]
    return Beside({"t": TableSource(rows)}, {"t": pending(instance_of(("b",)))}, **more)


def keys_of(parts: list[SnapshotPart]) -> list[bytes | None]:
    return [key for part in parts for key in part.rows.keys]


def expected(beside: Beside, numbers: range | list[int]) -> list[bytes | None]:
    table = pending(instance_of(("b",)))
    return encoder_of(table).encode_images([(0, n, 0, "x") for n in numbers], START)[1]


def page(table: PendingTable, *numbers: int) -> ChangePage:
    """Inserts of rows with these numbers."""
    lsn = at(0x50).to_bytes()
    return ChangePage(table.schema, [(lsn, 1, lsn, 2, b"", 0, n, 0, "new") for n in numbers])
