"""A file of an older release, which knows a change table by the spelling of its columns."""

import json

from tailrace_emulator.cdc.capture_scan import scan
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.model import EncodedColumns
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.fetching import fetch


def age(engine: Engine) -> None:
    """Writes the tables of a file as an older release did, before rows were kept encoded."""
    with engine.write() as connection:
        entries = fetch(
            connection, "SELECT database_id, key, value FROM catalog WHERE kind = 'table'"
        )
        for database_id, key, text in entries:
            raw = json.loads(text)
            raw["is_tracked_by_cdc"] = raw.pop("is_tracked")
            if raw.pop("encoded"):
                for name in ("encoded", "layout"):
                    table = f"t{raw['database_id']}_{raw['object_id']}"
                    connection.execute(f'ALTER TABLE "{table}" DROP COLUMN {name}')
            connection.execute(
                "UPDATE catalog SET value = ? WHERE kind = 'table' AND database_id = ? AND key = ?",
                (json.dumps(raw), database_id, key),
            )


def test_a_file_of_an_older_release_goes_on(orders):
    orders.insert("orders", (1, "a", 1, None))
    orders.scan()
    age(orders.engine)
    orders.session.close()
    orders.engine.close()
    engine = orders.engine = Engine(orders.engine.data_dir, orders.clock, ChangeDataCapture())
    database = orders.database = engine.database("shop")
    orders.session = StoreSession(engine, 52)
    assert orders.table("orders").is_tracked
    table = database.table("cdc", "dbo_orders_CT")
    assert table.encoded == EncodedColumns(5, 9)
    assert database.table("cdc", "change_tables").encoded is None
    orders.insert("orders", (2, "b", 1, None))
    scan(engine, database)
    assert [row["id"] for row in orders.changes("dbo_orders")] == [1, 2]
    orders.session.close()
    engine.close()
    again = Engine(engine.data_dir, orders.clock, ChangeDataCapture())
    orders.engine, orders.session = again, StoreSession(again, 53)
    assert again.database("shop").table("cdc", "dbo_orders_CT").encoded == EncodedColumns(5, 9)
