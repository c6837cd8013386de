"""The source: a database that is written to, captured, rotated and cleaned up while servers die."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

import pyodbc

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tests.endurance.switched import TABLE, switch
from tests.pipeline.daemon import chaos
from tests.pipeline.daemon.chaos import names_of, running, transaction

DATABASE: Final = "endurance"
TABLES: Final = (*chaos.TABLES, TABLE)
_SCAN_PAUSE_S: Final = 0.05
_KEEP_LSNS: Final = 50_000
"""Change rows that a cleanup takes from a table at once, at most."""


class Source:
    """The database and what was ever captured of it.

    Everything goes over connections that are made anew when the server was killed.

    Args:
        server: where it lives.
        seed: of the writers.
    """

    def __init__(self, server: EmulatorProcess, seed: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self._capturing = threading.Lock()
        self._instances = {table: [f"dbo_{table}"] for table in TABLES}
        self._seen_to: dict[str, Lsn] = defaultdict(lambda: Lsn.ZERO)
        self.captured: dict[str, set[ChangePosition]] = {table: set() for table in TABLES}
        self.transactions = 0
        self._threads = [
            threading.Thread(target=self._write, args=(random.Random(seed + number),))
            for number in range(2)
        ]
        self._threads.append(threading.Thread(target=self._capture))

    def working(self) -> AbstractContextManager[None]:
        """Write and capture while the block runs."""
        return running(self._threads, self._stop)

    @contextmanager
    def connection(self) -> Iterator[pyodbc.Connection]:
        """A connection to the database, in autocommit."""
        connection = pyodbc.connect(
            self._server.connection_string(DATABASE), autocommit=True, timeout=10
        )
        try:
            yield connection
        finally:
            with suppress(pyodbc.Error):
                connection.close()

    def scan(self) -> None:
        """Capture everything that is committed."""
        with self._capturing, self.connection() as connection:
            self._server.scan(connection)
            self._look(connection)

    def rotate(self, rng: random.Random, number: int) -> str:
        """Add an instance to a table that has one, or drop the older one of two, not waiting.

        What the older one has is looked at first, while nothing is captured.
        """
        table = rng.choice(TABLES)
        instances = self._instances[table]
        with self._capturing, self.connection() as connection:
            if len(instances) == 1:
                name = f"{table}_{number}"
                connection.execute(f"ALTER TABLE dbo.{table} ADD c{number} int NULL")
                connection.execute(
                    f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', N'{name}', @role_name = NULL"
                )
                instances.append(name)
                return f"instance {name} added"
            self._look(connection)
            connection.execute(
                f"EXEC sys.sp_cdc_disable_table N'dbo', N'{table}', N'{instances[0]}'"
            )
            return f"instance {instances.pop(0)} dropped"

    def switch(self, rng: random.Random, number: int) -> str:
        """Switch a partition out, in, or out and another one in."""
        with self.connection() as connection:
            return switch(connection, rng, number)

    def clean_up(self, below: Lsn) -> None:
        """Remove change rows up to an LSN that is published."""
        with self._capturing, self.connection() as connection:
            self._look(connection)
            mark = connection.execute(
                "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE start_lsn <= ?",
                below.to_bytes(),
            ).fetchval()
            rows = connection.execute(
                "SELECT capture_instance FROM cdc.change_tables WHERE start_lsn < ?", mark
            ).fetchall()
            for (instance,) in rows:
                connection.execute(
                    "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = ?,"
                    f" @low_water_mark = ?, @threshold = {_KEEP_LSNS}",
                    instance,
                    mark,
                )

    def max_lsn(self) -> Lsn:
        """The newest LSN that is captured."""
        with self.connection() as connection:
            raw = connection.execute("SELECT sys.fn_cdc_get_max_lsn()").fetchval()
        return Lsn.from_bytes(raw)

    def rows(self, sql: str) -> set[tuple[object, ...]]:
        """Rows of a statement."""
        with self.connection() as connection:
            return {tuple(row) for row in connection.execute(sql).fetchall()}

    def state(self, table: str) -> set[tuple[object, ...]]:
        """Keys and values of a table, as they are now."""
        return self.rows(f"SELECT {', '.join(names_of(table))} FROM dbo.{table}")

    def _look(self, connection: pyodbc.Connection) -> None:
        """Keep in mind what was captured since the last look."""
        newest = Lsn.from_bytes(
            connection.execute("SELECT sys.fn_cdc_get_max_lsn()").fetchval() or bytes(10)
        )
        for table, instances in self._instances.items():
            for instance in instances:
                rows = connection.execute(
                    "SELECT [__$start_lsn], ISNULL([__$command_id], 0), [__$seqval],"
                    f" [__$operation] FROM cdc.[{instance}_CT] WHERE [__$start_lsn] > ?"
                    " AND [__$start_lsn] <= ? AND [__$operation] <> 3",
                    self._seen_to[instance].to_bytes(),
                    newest.to_bytes(),
                ).fetchall()
                self.captured[table].update(
                    ChangePosition(
                        Lsn.from_bytes(row[0]), row[1], Lsn.from_bytes(row[2]), Operation(row[3])
                    )
                    for row in rows
                )
                self._seen_to[instance] = newest

    def _capture(self) -> None:
        while not self._stop.wait(_SCAN_PAUSE_S):
            with suppress(pyodbc.Error), self._capturing, self.connection() as connection:
                for _ in range(100):
                    self._server.scan(connection)

    def _write(self, rng: random.Random) -> None:
        while not self._stop.is_set():
            # The server was killed: a commit may be there or not, the change tables will tell.
            with suppress(pyodbc.Error), self.connection() as connection:
                connection.execute("SET LOCK_TIMEOUT 2000")
                connection.autocommit = False
                while not self._stop.wait(rng.random() * 0.05):
                    self.transactions += transaction(connection, rng, (1, 1, 2, 5, 30), 0.1, TABLES)
            self._stop.wait(0.2)
