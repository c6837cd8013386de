"""Writers that do what applications do, at random, and what every change row of them was."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyodbc

from tailrace.reading.topics import Event
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.source_database import SourceDatabase

TABLES = ("orders", "lines", "notes")
KEYS = 12  # few, so that rows come and go and change their keys
_RETRY = {1205, 1222, 2627, 4928, 207}  # deadlock, lock timeout, key taken, DDL met, column gone


def create_tables(source: SourceDatabase) -> None:
    """Three tables, each with a few rows, under change data capture."""
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, v int)",
        "CREATE TABLE dbo.lines (id int, line int, v int, PRIMARY KEY (id, line))",
        "CREATE TABLE dbo.notes (id int PRIMARY KEY, note nvarchar(max))",
        "INSERT dbo.orders VALUES (1, 0), (2, 0), (3, 0)",
        "INSERT dbo.lines VALUES (1, 1, 0), (2, 1, 0)",
        "INSERT dbo.notes VALUES (1, N'first')",
    )
    for table in TABLES:
        source.enable(table)


@contextmanager
def running(threads: Sequence[threading.Thread], stop: threading.Event) -> Iterator[None]:
    """Run threads while the block runs."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class Writers:
    """Two connections that write until they are told to stop.

    Attributes:
        errors: what ended a writer; an expected error of two writers only ends its transaction.
    """

    def __init__(self, source: SourceDatabase, seed: int) -> None:
        self._source = source
        self._stop = threading.Event()
        self.errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._write, args=(random.Random(seed + number),))
            for number in range(2)
        ]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while the block runs; an error of a writer is raised behind it."""
        with running(self._threads, self._stop):
            yield
        if self.errors:
            raise self.errors[0]

    def _write(self, rng: random.Random) -> None:
        connection = self._source.server.connect(self._source.name, autocommit=False)
        try:
            connection.execute("SET LOCK_TIMEOUT 2000")
            connection.commit()
            while not self._stop.wait(rng.random() * 0.03):
                transaction(connection, rng, (1, 1, 2, 5), 0.15)
        except pyodbc.Error as error:
            self.errors.append(error)
        finally:
            connection.close()


def transaction(
    connection: pyodbc.Connection,
    rng: random.Random,
    sizes: Sequence[int],
    rollbacks: float,
    tables: Sequence[str] = TABLES,
) -> bool:
    """Some statements and their end; an expected error of two writers only ends it.

    Args:
        connection: not in autocommit.
        rng: chooses.
        sizes: how many statements, one of these.
        rollbacks: how many transactions of one are rolled back.
        tables: have an integer v, but for notes.

    Returns:
        Whether it was committed.
    """
    try:
        for _ in range(rng.choice(sizes)):
            connection.execute(statement(rng, tables))
        is_kept = rng.random() >= rollbacks
        if is_kept:
            connection.commit()
        else:
            connection.rollback()
    except pyodbc.Error as error:
        if not any(f"({number})" in str(error) for number in _RETRY):
            raise
        connection.rollback()
        return False
    return is_kept


def statement(rng: random.Random, tables: Sequence[str] = TABLES) -> str:
    """An insert, update, delete, change of keys or a change of many rows."""
    table = rng.choice(tables)
    key, other = rng.randrange(KEYS), rng.randrange(100, 100 + KEYS)
    value = f"N'{'x' * rng.choice((1, 50, 5000))}{rng.random()}'"
    if table != "notes":
        value = str(rng.randrange(1000))
    column = names_of(table)[-1]
    names = f"id, line, {column}" if table == "lines" else f"id, {column}"
    values = f"{key}, {rng.randrange(3)}, {value}" if table == "lines" else f"{key}, {value}"
    return rng.choice(
        (
            f"INSERT dbo.{table} ({names}) VALUES ({values})",
            f"UPDATE dbo.{table} SET {column} = {value} WHERE id = {key}",
            f"UPDATE dbo.{table} SET {column} = {value} WHERE id % 3 = {key % 3}",
            f"DELETE dbo.{table} WHERE id = {key}",
            f"DELETE dbo.{table} WHERE id >= 100",
            f"UPDATE dbo.{table} SET id = {other} WHERE id = {key}",
        )
    )


class Captured:
    """Every change row that was ever there: cleanup takes them away, and so do hand-overs."""

    def __init__(self, source: SourceDatabase) -> None:
        self._source = source
        self._instances = {table: [f"dbo_{table}"] for table in TABLES}
        self._seen: dict[str, set[ChangePosition]] = {table: set() for table in TABLES}

    def look(self) -> None:
        """Read all change tables."""
        for table, instances in self._instances.items():
            for instance in instances:
                self._seen[table].update(self._source.positions(instance))

    def positions(self, table: str, begin: Lsn) -> Counter[ChangePosition]:
        """Each change row behind an LSN once; an instance beside another has the same rows."""
        return Counter(found for found in self._seen[table] if found.commit_lsn > begin)

    def clean_up(self, below: Lsn) -> None:
        """Remove change rows that are published; what is read first is kept in mind."""
        self.look()
        found = self._source.query(
            "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE start_lsn <= ?", below.to_bytes()
        )
        older = self._source.query(
            "SELECT capture_instance FROM cdc.change_tables WHERE start_lsn <= ?", found[0][0]
        )
        for (instance,) in older:  # the low endpoint of the others is above the mark: 22957
            self._source.connection.execute(
                "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = ?,"
                " @low_water_mark = ?, @threshold = 5000",
                instance,
                found[0][0],
            )

    def add_column(self, table: str, number: int) -> None:
        """A new column, and a capture instance that has it beside the one before."""
        self._source.execute(f"ALTER TABLE dbo.{table} ADD c{number} int NULL")
        name = f"{table}_{number}"
        self._source.execute(  # the capture process recognises it when it comes to it
            f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', N'{name}', @role_name = NULL"
        )
        self._instances[table].append(name)

    def drop_oldest(self, table: str) -> None:
        """Disable the instance that was handed over from."""
        self.look()
        oldest = self._instances[table].pop(0)
        self._source.execute(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo',"
            f" @source_name = N'{table}', @capture_instance = N'{oldest}'"
        )

    def has_two(self, table: str) -> bool:
        """Whether a hand-over is under way."""
        return len(self._instances[table]) > 1


def rows_of(events: Iterable[Event], table: str) -> dict[Any, tuple[Any, ...]]:
    """What whoever applies events has of a table: its key and value columns, by key.

    A row that changed its key comes and goes in different partitions: positions order them.
    """
    names = names_of(table)
    keys = names[:-1]
    rows: dict[Any, tuple[Any, ...]] = {}
    for event in sorted(events, key=lambda event: event.position):
        envelope = event.envelope
        assert envelope is not None
        row = envelope["before"] if envelope["op"] == "d" else envelope["after"]
        key = tuple(row[name] for name in keys)
        if envelope["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = tuple(row[name] for name in names)
    return rows


def names_of(table: str) -> tuple[str, ...]:
    """The key columns of a table and the column with its value."""
    keys = ("id", "line") if table == "lines" else ("id",)
    return (*keys, "note" if table == "notes" else "v")


def is_in_order(changes: Iterable[Event]) -> bool:
    """Whether in every partition the changes have rising positions."""
    of_partition: dict[int, list[ChangePosition]] = defaultdict(list)
    for event in changes:
        of_partition[event.partition].append(event.position)
    return all(positions == sorted(positions) for positions in of_partition.values())
