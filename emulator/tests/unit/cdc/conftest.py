"""A database with change data capture on a fresh engine, its clock moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrace_emulator.cdc.capture_scan import scan
from tailrace_emulator.cdc.enable_database import enable_database
from tailrace_emulator.cdc.enable_table import EnableTable, enable_table
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Column, Index, Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.types import INT, MAX, decimal_type, nvarchar

START_TICKS = 638_000_000_000_000_000


@dataclass
class Shop:
    """A database ``shop`` and one session in it."""

    engine: Engine
    database: Database
    session: StoreSession
    clock: ManualClock

    def create(self, name: str, *columns: Column, key: tuple[int, ...] = (1,)) -> Table:
        index = Index(0, f"PK_{name}", key, (), True, True, False, True)
        return ddl.create_table(
            self.session, self.database, "dbo", name, columns, indexes=[index] if key else []
        )

    def track(self, name: str, **options: object) -> str:
        enable_table(
            self.engine,
            self.database,
            EnableTable("dbo", name, None, **options),  # type: ignore[arg-type]
        )
        return str(options.get("capture_instance") or f"dbo_{name}")

    def table(self, name: str) -> Table:
        found = self.database.table("dbo", name)
        assert found is not None
        return found

    def insert(self, name: str, *rows: tuple) -> list[int]:
        with self.session.statement():
            return self.session.insert(self.table(name), rows)

    def update(self, name: str, changes: dict[int, tuple]) -> None:
        with self.session.statement():
            self.session.update(self.table(name), changes.items())

    def delete(self, name: str, *rids: int) -> None:
        with self.session.statement():
            self.session.delete(self.table(name), rids)

    def scan(self, **options: int):
        return scan(self.engine, self.database, **options)

    def rows(self, schema: str, name: str) -> list[dict[str, object]]:
        """All rows of a system table that a query sees, in storage order, by column name."""
        table = self.database.table(schema, name)
        assert table is not None
        columns = ", ".join(column.sqlite_name for column in table.columns)
        names = [column.name for column in table.columns]
        return [
            dict(zip(names, row, strict=True))
            for row in self.session.connection.execute(
                f"SELECT {columns} FROM {self.session.reads.source(table)} ORDER BY rid"
            )
        ]

    def changes(self, instance: str) -> list[dict[str, object]]:
        return self.rows("cdc", f"{instance}_CT")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    clock = ManualClock(START_TICKS)
    engine = Engine(tmp_path / "data", clock, ChangeDataCapture())
    database = engine.create_database("shop")
    enable_database(engine, database)
    session = StoreSession(engine, 51)
    try:
        yield Shop(engine, database, session, clock)
    finally:
        session.close()
        engine.close()


@pytest.fixture
def orders(shop: Shop) -> Shop:
    """With a tracked table dbo.orders(id int, name nvarchar, amount decimal, note (max))."""
    shop.create(
        "orders",
        Column(0, "id", INT, False),
        Column(0, "name", nvarchar(50)),
        Column(0, "amount", decimal_type(9, 2)),
        Column(0, "note", nvarchar(MAX)),
    )
    shop.track("orders")
    return shop
