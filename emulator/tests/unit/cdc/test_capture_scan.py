import threading

import pytest

from tailrace_emulator import messages
from tailrace_emulator.cdc import capture_scan, functions
from tailrace_emulator.cdc.capture_instance import find_instance
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import alter, ddl
from tailrace_emulator.storage.model import Column, Identity
from tailrace_emulator.storage.transaction import GENERATED, StoreSession
from tailrace_emulator.values.types import (
    BIGINT,
    INT,
    MAX,
    SMALLINT,
    SqlType,
    decimal_type,
    nvarchar,
    pack_decimal,
    varchar,
)

METADATA = ("__$operation", "__$update_mask", "__$command_id")


def described(rows, *columns):
    return [tuple(row[name] for name in (*METADATA, *columns)) for row in rows]


def test_insert_update_delete_become_change_rows(orders):
    (rid,) = orders.insert("orders", (1, "a", 100, "x"))
    orders.update("orders", {rid: (1, "b", 100, "x")})
    orders.delete("orders", rid)

    orders.scan()

    rows = orders.changes("dbo_orders")
    assert described(rows, "id", "name", "amount", "note") == [
        (2, b"\x0f", 1, 1, "a", 100, "x"),
        (3, b"\x02", 1, 1, "a", 100, None),
        (4, b"\x02", 1, 1, "b", 100, "x"),
        (1, b"\x0f", 1, 1, "b", 100, "x"),
    ]
    assert [row["__$end_lsn"] for row in rows] == [None] * 4
    assert rows[1]["__$seqval"] == rows[2]["__$seqval"]
    assert rows[0]["__$start_lsn"] < rows[1]["__$start_lsn"] < rows[3]["__$start_lsn"]


def test_change_table_has_the_documented_columns(orders):
    table = orders.database.table("cdc", "dbo_orders_CT")

    described_columns = [(c.name, str(c.type), c.nullable) for c in table.columns]
    assert described_columns == [
        ("__$start_lsn", "binary(10)", False),
        ("__$end_lsn", "binary(10)", True),
        ("__$seqval", "binary(10)", False),
        ("__$operation", "int", False),
        ("__$update_mask", "varbinary(128)", True),
        ("id", "int", True),
        ("name", "nvarchar(50)", True),
        ("amount", "decimal(9,2)", True),
        ("note", "nvarchar(max)", True),
        ("__$command_id", "int", True),
    ]


def test_max_column_keeps_its_old_value_only_where_it_changed(orders):
    (rid,) = orders.insert("orders", (1, "a", 1, "old"))
    orders.update("orders", {rid: (1, "a", 1, "new")})

    orders.scan()

    assert described(orders.changes("dbo_orders"), "note")[1:] == [
        (3, b"\x08", 1, "old"),
        (4, b"\x08", 1, "new"),
    ]


def test_text_is_null_before_updates_and_in_deletes(shop):
    shop.create("notes", Column(0, "id", INT, False), Column(0, "body", SqlType("ntext")))
    shop.track("notes")
    (rid,) = shop.insert("notes", (1, "old"))
    shop.update("notes", {rid: (1, "new")})
    shop.delete("notes", rid)

    shop.scan()

    assert [(r["__$operation"], r["body"]) for r in shop.changes("dbo_notes")] == [
        (2, "old"),
        (3, None),
        (4, "new"),
        (1, None),
    ]


def test_rowversion_and_identity_change_their_types(shop):
    shop.create(
        "items",
        Column(0, "id", SMALLINT, False, Identity()),
        Column(0, "version", SqlType("timestamp"), False),
        Column(0, "big", decimal_type(20, 0), False),
    )
    shop.track("items")
    shop.insert("items", (GENERATED, GENERATED, pack_decimal(7, decimal_type(20, 0))))

    shop.scan()

    table = shop.database.table("cdc", "dbo_items_CT")
    assert [str(c.type) for c in table.columns[5:-1]] == ["int", "binary(8)", "decimal(20,0)"]

    (row,) = shop.changes("dbo_items")
    assert row["id"] == 1
    assert isinstance(row["version"], bytes)
    assert len(row["version"]) == 8


def test_wide_decimal_identity_becomes_bigint(shop):
    wide = decimal_type(25, 0)
    shop.create("wide", Column(0, "id", wide, False, Identity(5, 1)), Column(0, "x", INT))
    shop.track("wide")
    shop.insert("wide", (GENERATED, 1))

    shop.scan()

    table = shop.database.table("cdc", "dbo_wide_CT")
    assert table.columns[5].type == BIGINT
    assert shop.changes("dbo_wide")[0]["id"] == 5


def test_computed_columns_are_always_null(shop):
    shop.create(
        "sums",
        Column(0, "id", INT, False),
        Column(0, "twice", INT, computed="id * 2", persisted=True),
    )
    shop.track("sums")
    shop.insert("sums", (3, 6))

    shop.scan()

    (row,) = shop.changes("dbo_sums")
    assert row["twice"] is None
    assert row["__$update_mask"] == b"\x03"
    (_, captured) = shop.rows("cdc", "captured_columns")
    assert captured["is_computed"] == 1


def test_mask_counts_columns_of_the_change_table(shop):
    """The book's example: of (a, b, c, d, e) three are captured; 0x4 means the third of them."""
    shop.create("t", *(Column(0, name, INT, name != "a") for name in "abcde"))
    shop.track("t", captured_column_list=' a, [b] ,"e"')
    (rid,) = shop.insert("t", (1, 2, 3, 4, 5))
    shop.update("t", {rid: (1, 2, 33, 4, 55)})

    shop.scan()

    assert [r["__$update_mask"] for r in shop.changes("dbo_t")] == [b"\x07", b"\x04", b"\x04"]


def test_mask_of_more_than_eight_columns_has_its_first_column_on_the_right(shop):
    shop.create("wide", *(Column(0, f"c{i}", INT, i > 1) for i in range(1, 11)))
    shop.track("wide")
    (rid,) = shop.insert("wide", tuple(range(10)))
    shop.update("wide", {rid: (0, 11, *range(2, 9), 99)})

    shop.scan()

    assert [r["__$update_mask"] for r in shop.changes("dbo_wide")] == [
        b"\x03\xff",
        b"\x02\x02",
        b"\x02\x02",
    ]


def test_update_of_uncaptured_columns_makes_no_rows(shop):
    shop.create("t", Column(0, "a", INT, False), Column(0, "b", INT))
    shop.track("t", captured_column_list="a")
    (rid,) = shop.insert("t", (1, 2))
    shop.update("t", {rid: (1, 3)})

    sessions = shop.scan()

    assert [r["__$operation"] for r in shop.changes("dbo_t")] == [2]
    assert sessions[0].tran_count == 2


def test_key_update_is_delete_and_insert_with_one_seqval(orders):
    rids = orders.insert("orders", (1, "a", 1, None), (2, "b", 2, None))
    orders.update("orders", {rids[0]: (2, "a", 1, None), rids[1]: (3, "b", 2, None)})

    orders.scan()

    rows = orders.changes("dbo_orders")[2:]
    ordered = sorted(
        rows,
        key=lambda r: (r["__$start_lsn"], r["__$command_id"], r["__$seqval"], r["__$operation"]),
    )
    assert [(r["__$operation"], r["id"]) for r in ordered] == [(1, 1), (1, 2), (2, 2), (2, 3)]
    by_name = {}
    for row in rows:
        by_name.setdefault(row["name"], set()).add(row["__$seqval"])
    assert [len(seqvals) for seqvals in by_name.values()] == [1, 1]


def test_open_and_rolled_back_transactions_never_appear(orders):
    other = StoreSession(orders.engine, 52)
    other.begin()
    with other.statement():
        other.insert(orders.table("orders"), [(9, "open", 1, None)])
    orders.session.begin()
    orders.insert("orders", (8, "undone", 1, None))
    orders.session.rollback()

    orders.scan()
    assert orders.changes("dbo_orders") == []

    other.commit()
    orders.scan()
    assert [r["id"] for r in orders.changes("dbo_orders")] == [9]
    other.close()


def test_commit_order_decides_not_begin_order(orders):
    first = StoreSession(orders.engine, 52)
    first.begin()
    with first.statement():
        first.insert(orders.table("orders"), [(1, "began first", 1, None)])
    orders.insert("orders", (2, "committed first", 1, None))
    first.commit()
    first.close()

    orders.scan()

    names = [r["name"] for r in orders.changes("dbo_orders")]
    assert names == ["committed first", "began first"]


def test_lsn_time_mapping_has_one_entry_per_transaction(orders):
    orders.clock.advance(10)
    orders.session.begin()
    orders.insert("orders", (1, "a", 1, None))
    orders.clock.advance(3)
    orders.insert("orders", (2, "b", 1, None))
    lsn = orders.session.commit()

    orders.scan()

    start, begun, transaction = orders.rows("cdc", "lsn_time_mapping")
    assert start["tran_id"] == b"\x00"
    assert begun["tran_id"] not in {b"\x00", transaction["tran_id"]}
    assert begun["tran_begin_lsn"] < begun["start_lsn"] < transaction["tran_begin_lsn"]
    assert transaction["start_lsn"] == lsn
    assert transaction["tran_end_time"] - transaction["tran_begin_time"] == 3 * 10_000_000
    assert transaction["tran_begin_lsn"] < lsn
    assert transaction["tran_id"] != b"\x00"


def test_start_lsn_is_established_when_the_scan_recognises_the_instance(orders):
    connection = orders.session.connection
    assert find_instance(connection, orders.database, "dbo_orders").start_lsn is None
    assert functions.min_lsn(connection, orders.database, "dbo_orders") == ZERO_LSN
    assert functions.max_lsn(connection, orders.database) is None

    orders.scan()

    start = find_instance(connection, orders.database, "DBO_orders").start_lsn
    assert functions.min_lsn(connection, orders.database, "dbo_orders") == start
    below, entry = orders.rows("cdc", "lsn_time_mapping")
    assert below["start_lsn"] == start < entry["start_lsn"]
    assert functions.max_lsn(connection, orders.database) == entry["start_lsn"]


def test_second_instance_sees_only_what_commits_after_it(orders):
    orders.insert("orders", (1, "before", 1, None))
    orders.track("orders", capture_instance="second", captured_column_list="id,name")
    orders.insert("orders", (2, "after", 1, None))

    orders.scan()

    assert [r["id"] for r in orders.changes("dbo_orders")] == [1, 2]
    assert [r["id"] for r in orders.changes("second")] == [2]
    starts = [i["start_lsn"] for i in orders.rows("cdc", "change_tables")]
    assert starts[0] < orders.changes("dbo_orders")[0]["__$start_lsn"] < starts[1]


def test_maxtrans_bounds_a_cycle_and_maxscans_the_scan(orders):
    for number in range(7):
        orders.insert("orders", (number, "n", 1, None))

    sessions = orders.scan(maxtrans=2, maxscans=2)
    assert [s.tran_count for s in sessions] == [2, 2]
    sessions = orders.scan(maxtrans=2, maxscans=10)
    assert [s.tran_count for s in sessions] == [2, 1]
    assert [r["id"] for r in orders.changes("dbo_orders")] == list(range(7))


def test_instance_is_recognised_only_when_its_place_is_reached(orders):
    for number in range(3):
        orders.insert("orders", (number, "n", 1, None))
    orders.track("orders", capture_instance="late")

    orders.scan(maxtrans=2, maxscans=1)
    assert [i["start_lsn"] is None for i in orders.rows("cdc", "change_tables")] == [False, True]
    orders.scan()
    assert [i["start_lsn"] is None for i in orders.rows("cdc", "change_tables")] == [False, False]


def test_log_is_kept_until_captured_and_truncated_after(orders):
    orders.insert("orders", (1, "a", 1, None))
    assert orders.database.log.last_commit() is not None

    orders.scan()

    assert orders.database.log.last_commit() is None


def test_stopped_scan_undoes_its_cycle_and_loses_nothing(orders):
    orders.insert("orders", *((n, "n", 1, None) for n in range(10_000)))
    stop = threading.Event()
    asked = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 2

    assert capture_scan.scan(orders.engine, orders.database, stopped=stopped) == []
    assert orders.changes("dbo_orders") == []
    capture_scan.scan(orders.engine, orders.database, stopped=stop.is_set)
    assert len(orders.changes("dbo_orders")) == 10_000


def test_two_scans_at_once_are_refused(orders):
    with (
        runtime(orders.engine).scanning(orders.database, 60),
        pytest.raises(SqlError, match="session ID 60") as refused,
    ):
        orders.scan()
    assert refused.value.number == 22903
    orders.scan()


def test_quiet_database_gets_an_entry_after_five_minutes(orders):
    orders.scan()
    orders.clock.advance(299)
    orders.scan()
    assert len(orders.rows("cdc", "lsn_time_mapping")) == 2
    orders.clock.advance(2)
    orders.scan()

    entries = orders.rows("cdc", "lsn_time_mapping")[1:]
    assert [e["tran_id"] == b"\x00" for e in entries] == [False, True]
    assert entries[0]["start_lsn"] < entries[1]["start_lsn"]
    orders.insert("orders", (1, "a", 1, None))
    orders.scan()
    assert orders.changes("dbo_orders")[0]["__$start_lsn"] > entries[1]["start_lsn"]


def test_scan_sessions_show_drained_logs_and_collapse_empty_ones(orders):
    orders.insert("orders", (1, "a", 1, None))
    orders.clock.advance(5)
    for _ in range(3):
        orders.scan()
        orders.clock.advance(5)

    aggregate, busy, empty = runtime(orders.engine).history(orders.database).rows()
    assert (busy.session_id, busy.tran_count, busy.command_count) == (1, 1, 1)
    assert busy.latency_s == 5
    assert (empty.session_id, empty.tran_count, empty.empty_scan_count) == (2, 0, 2)
    assert empty.start_ticks == orders.clock.now_ticks() - 5 * 10_000_000
    assert (aggregate.session_id, aggregate.tran_count) == (0, 1)


def test_a_session_that_found_nothing_starts_nowhere_and_ends_where_the_log_ended(orders):
    orders.scan()
    orders.insert("orders", (1, "a", 1, None))
    orders.scan()
    busy = runtime(orders.engine).history(orders.database).rows()[-1]
    before = orders.database.log.end()
    orders.scan()

    empty = runtime(orders.engine).history(orders.database).rows()[-1]
    assert busy.end_lsn == busy.last_commit_lsn
    assert empty.end_lsn == before >= busy.end_lsn
    assert empty.start_lsn == ZERO_LSN != busy.start_lsn


def test_added_columns_are_ignored_and_dropped_ones_null(orders):
    table = orders.table("orders")
    alter.add_columns(
        orders.session,
        orders.database,
        table,
        [Column(0, "extra", INT)],
        command="ALTER TABLE orders ADD extra int",
    )
    orders.insert("orders", (1, "a", 1, "n", 5))
    alter.drop_column(
        orders.session,
        orders.database,
        orders.table("orders"),
        "name",
        command="ALTER TABLE orders DROP COLUMN name",
    )
    orders.insert("orders", (2, 2, "m", 6))

    orders.scan()

    rows = orders.changes("dbo_orders")
    assert [(r["id"], r["name"], r["amount"], r["note"]) for r in rows] == [
        (1, "a", 1, "n"),
        (2, None, 2, "m"),
    ]
    history = orders.rows("cdc", "ddl_history")
    assert [(h["ddl_command"], h["required_column_update"]) for h in history] == [
        ("ALTER TABLE orders ADD extra int", 0),
        ("ALTER TABLE orders DROP COLUMN name", 0),
    ]
    assert history[0]["ddl_lsn"] < rows[0]["__$start_lsn"] < history[1]["ddl_lsn"]


def test_changed_type_reaches_the_change_table_with_the_scan(shop):
    shop.create("t", Column(0, "id", INT, False), Column(0, "v", varchar(10)))
    shop.track("t")
    shop.insert("t", (1, "ten chars!"))
    shop.scan()
    table = shop.table("t")
    alter.alter_column(
        shop.session,
        shop.database,
        table,
        table.column("v").column_id,
        Column(0, "v", nvarchar(20)),
        command="ALTER TABLE t ALTER COLUMN v nvarchar(20)",
    )
    shop.insert("t", (2, "twenty characters, é"))
    change_table = shop.database.table("cdc", "dbo_t_CT")
    assert str(change_table.column("v").type) == "varchar(10)"

    shop.scan()

    change_table = shop.database.table("cdc", "dbo_t_CT")
    assert str(change_table.column("v").type) == "nvarchar(20)"
    assert [r["v"] for r in shop.changes("dbo_t")] == ["ten chars!", "twenty characters, é"]
    (history,) = shop.rows("cdc", "ddl_history")
    assert history["required_column_update"] == 1
    assert shop.rows("cdc", "captured_columns")[1]["column_type"] == "nvarchar"


def test_narrowing_needs_the_documented_steps(shop):
    shop.create("t", Column(0, "id", INT, False), Column(0, "v", INT))
    shop.track("t")
    (rid,) = shop.insert("t", (1, 100_000))
    shop.scan()
    shop.update("t", {rid: (1, 5)})
    shop.scan()
    alter.alter_column(
        shop.session,
        shop.database,
        shop.table("t"),
        2,
        Column(0, "v", SMALLINT),
        command="ALTER TABLE t ALTER COLUMN v smallint",
    )

    with pytest.raises(SqlError) as failed:
        shop.scan()
    assert failed.value.number == 22976
    errors = runtime(shop.engine).history(shop.database).errors()
    assert [error.number for error in errors] == [220, 22976, 22860]
    assert [r["v"] for r in shop.changes("dbo_t")] == [100_000, 100_000, 5]
    assert str(shop.database.table("cdc", "dbo_t_CT").column("v").type) == "int"

    change_table = shop.database.table("cdc", "dbo_t_CT")
    column = change_table.column("v").sqlite_name
    with shop.engine.write() as connection:
        connection.execute(
            f'UPDATE "{change_table.sqlite_name}" SET {column} = 5 WHERE {column} > 32767'
        )
    shop.scan()
    assert str(shop.database.table("cdc", "dbo_t_CT").column("v").type) == "smallint"


def test_dropped_source_table_takes_its_instance_along(orders):
    orders.insert("orders", (1, "a", 1, None))
    ddl.drop_table(
        orders.session, orders.database, orders.table("orders"), command="DROP TABLE orders"
    )

    orders.scan()

    assert orders.rows("cdc", "change_tables") == []
    assert orders.database.table("cdc", "dbo_orders_CT") is None


def test_large_transaction_is_captured_in_bounded_batches(orders):
    orders.session.begin()
    for start in range(0, 20_000, 1000):
        orders.insert("orders", *((n, "n", n, None) for n in range(start, start + 1000)))
    orders.session.commit()

    (session,) = orders.scan()

    assert (session.tran_count, session.command_count) == (1, 20_000)
    rows = orders.changes("dbo_orders")
    assert [r["__$command_id"] for r in rows] == sorted(r["__$command_id"] for r in rows)
    assert len({r["__$seqval"] for r in rows}) == 20_000


def test_messages_of_the_catalogue_take_their_arguments():
    assert messages.text(22901, "shop").startswith("The database 'shop' is not enabled")
    assert nvarchar(MAX).length == MAX
