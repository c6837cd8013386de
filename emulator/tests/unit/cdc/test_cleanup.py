import pytest

from tailrace_emulator.cdc import cleanup, jobs
from tailrace_emulator.cdc.jobs import JobOptions
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.types import INT

MINUTE_S = 60


def captured_hourly(shop, count, first=0):
    """``count`` transactions an hour apart; returns their LSNs."""
    lsns = []
    for number in range(first, first + count):
        shop.insert("orders", (number, "n", 1, None))
        shop.scan()
        lsns.append(shop.changes("dbo_orders")[-1]["__$start_lsn"])
        shop.clock.advance(60 * MINUTE_S)
    return lsns


def starts(shop):
    return {i["capture_instance"]: i["start_lsn"] for i in shop.rows("cdc", "change_tables")}


def set_retention(shop, minutes, threshold=5000):
    with shop.engine.write() as connection:
        jobs.change_job(
            connection,
            shop.engine,
            shop.database,
            "cleanup",
            JobOptions(retention=minutes, threshold=threshold),
        )


def test_job_subtracts_the_retention_from_the_newest_commit_time(orders):
    lsns = captured_hourly(orders, 5)
    orders.clock.advance(1000 * MINUTE_S)  # the wall clock does not matter
    set_retention(orders, 120)

    result = cleanup.run_cleanup_job(orders.engine, orders.database)

    assert result.deleted == {"dbo_orders": 2}
    assert starts(orders) == {"dbo_orders": lsns[2]}
    assert [r["id"] for r in orders.changes("dbo_orders")] == [2, 3, 4]
    assert [e["start_lsn"] for e in orders.rows("cdc", "lsn_time_mapping")] == lsns[2:]


def test_smallest_lsn_of_equal_times_is_the_watermark(orders):
    for number in range(3):
        orders.insert("orders", (number, "same time", 1, None))
    orders.clock.advance(60 * MINUTE_S)
    orders.insert("orders", (3, "later", 1, None))
    orders.scan()
    set_retention(orders, 60)

    cleanup.run_cleanup_job(orders.engine, orders.database)

    first = orders.changes("dbo_orders")[0]
    assert first["id"] == 0
    assert starts(orders)["dbo_orders"] <= first["__$start_lsn"]


def test_threshold_bounds_each_delete_but_not_their_sum(orders):
    orders.insert("orders", *((n, "n", 1, None) for n in range(25)))
    orders.scan()
    orders.clock.advance(600 * MINUTE_S)
    orders.insert("orders", (100, "n", 1, None))
    orders.clock.advance(600 * MINUTE_S)
    orders.insert("orders", (101, "n", 1, None))
    orders.scan()
    set_retention(orders, 600, threshold=10)

    result = cleanup.run_cleanup_job(orders.engine, orders.database)

    assert result.deleted == {"dbo_orders": 25}


def test_nothing_old_enough_means_nothing_goes(orders):
    captured_hourly(orders, 3)
    before = starts(orders)

    assert cleanup.run_cleanup_job(orders.engine, orders.database).deleted == {"dbo_orders": 0}
    assert starts(orders) == before


def test_younger_instances_keep_their_watermark(orders):
    captured_hourly(orders, 3)
    orders.track("orders", capture_instance="young")
    lsns = captured_hourly(orders, 2, first=3)
    young = starts(orders)["young"]
    set_retention(orders, 170)

    cleanup.run_cleanup_job(orders.engine, orders.database)

    after = starts(orders)
    assert after["young"] == young
    assert after["dbo_orders"] < young
    assert lsns[0] in [e["start_lsn"] for e in orders.rows("cdc", "lsn_time_mapping")]


def test_change_table_cleanup_by_instance(orders):
    lsns = captured_hourly(orders, 4)
    orders.track("orders", capture_instance="other")
    captured_hourly(orders, 1, first=4)

    result = cleanup.cleanup_change_table(
        orders.engine, orders.database, "dbo_orders", lsns[2], threshold=1
    )

    assert result.deleted == {"dbo_orders": 2}
    assert starts(orders)["dbo_orders"] == lsns[2]
    again = cleanup.cleanup_change_table(orders.engine, orders.database, "DBO_ORDERS", None)
    assert again.deleted == {"dbo_orders": 0}


def test_watermark_never_goes_back(orders):
    lsns = captured_hourly(orders, 3)
    cleanup.cleanup_change_table(orders.engine, orders.database, "dbo_orders", lsns[2])
    with pytest.raises(SqlError) as error:
        cleanup.cleanup_change_table(orders.engine, orders.database, "dbo_orders", lsns[0])
    assert error.value.number == 22964  # its mapping entry went with the rows
    assert starts(orders)["dbo_orders"] == lsns[2]


@pytest.mark.parametrize(
    ("instance", "lsn", "threshold", "number"),
    [
        ("nothing", None, 1, 22920),
        (None, None, 1, 22963),
        ("dbo_orders", bytes(10), 1, 22964),
        ("dbo_orders", None, 0, 22850),
    ],
)
def test_bad_parameters_have_their_numbers(orders, instance, lsn, threshold, number):
    orders.scan()
    with pytest.raises(SqlError) as error:
        cleanup.cleanup_change_table(orders.engine, orders.database, instance, lsn, threshold)
    assert error.value.number == number


def test_databases_without_change_data_capture_are_refused(shop):
    other = shop.engine.create_database("other")
    with pytest.raises(SqlError) as error:
        cleanup.run_cleanup_job(shop.engine, other)
    assert error.value.number == 22910


def test_failure_on_one_table_does_not_stop_the_others(shop):
    for name in ("one", "two"):
        shop.create(name, Column(0, "id", INT, False))
        shop.track(name)
        shop.insert(name, (1,))
    shop.scan()
    shop.clock.advance(5 * 24 * 60 * MINUTE_S)
    shop.insert("two", (2,))
    shop.scan()
    broken = shop.database.table("cdc", "dbo_one_CT")
    with shop.engine.write() as connection:
        connection.execute(
            f'CREATE TRIGGER broken BEFORE DELETE ON "{broken.sqlite_name}"'
            " BEGIN SELECT RAISE(ABORT, 'this table cannot be deleted from'); END"
        )

    result = cleanup.run_cleanup_job(shop.engine, shop.database)

    assert result.failed == ("dbo_one",)
    assert result.deleted == {"dbo_two": 1}
    assert [row["id"] for row in shop.changes("dbo_one")] == [1]
    assert [row["id"] for row in shop.changes("dbo_two")] == [2]
    marks = starts(shop)
    assert marks["dbo_one"] == marks["dbo_two"] == shop.changes("dbo_two")[0]["__$start_lsn"]
