import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tailrace_emulator.catalog.configuration import reconfigure
from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.catalog.functions import global_variable, scalar_function, table_function
from tailrace_emulator.catalog.names import ObjectName, split_name
from tailrace_emulator.catalog.procedures import PROCEDURES, REQUIRED, find_procedure
from tailrace_emulator.catalog.registry import VIEWS
from tailrace_emulator.catalog.views import system_view
from tailrace_emulator.cdc.surface.declarations import DECLARED
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.model import Column, Identity
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.results import Message, ResultSet, ReturnStatus, Rows
from tailrace_emulator.values.types import BIGINT, INT, MAX, SqlType, decimal_type, nvarchar
from tailrace_emulator.values.variants import unpacked


@pytest.fixture
def context(orders):
    return SessionContext(orders.engine, orders.database, orders.session, 51, "sa", host="h")


def view(context, name, database=None):
    schema, _, plain = name.partition(".")
    database = database or context.database
    found = system_view(context, database, schema, plain)
    assert found is not None, name
    names = [column.name for column in found.columns]
    rows = found.rows(context, database)
    assert all(len(row) == len(names) for row in rows), name
    return [dict(zip(names, row, strict=True)) for row in rows]


def call(context, name, **given):
    """Runs a procedure; returns (result rows as dicts, messages)."""
    procedure = find_procedure(context, "sys", name)
    assert procedure is not None, name
    args = {}
    for parameter in procedure.parameters:
        plain = parameter.name.removeprefix("@")
        if plain in given:
            args[parameter.name] = given[plain]
        else:
            assert parameter.default is not REQUIRED, f"{name} needs {plain}"
            args[parameter.name] = parameter.default
    rows, messages, names = [], [], []
    events = list(procedure.run(context, args))
    for event in events:
        match event:
            case ResultSet(columns):
                names = [column.name for column in columns]
            case Rows(found):
                assert all(len(row) == len(names) for row in found), name
                rows += [dict(zip(names, row, strict=True)) for row in found]
            case Message():
                messages.append(event)
            case _:
                pass
    assert events[-1] == ReturnStatus(0)
    return rows, messages


def scalar(context, name, *arguments):
    schema, _, plain = name.rpartition(".")
    function = scalar_function(context, schema, plain)
    assert function is not None, name
    return function.call(context, *arguments)


def test_every_view_yields_rows_of_its_width(context):
    for schema, name in (*VIEWS, *DECLARED.views.by_name):
        if schema.startswith("msdb:"):
            view(context, f"dbo.{name}", context.engine.database("msdb"))
        else:
            view(context, f"{schema}.{name}")


def test_tables_say_that_they_are_tracked(context):
    tables = {row["name"]: row for row in view(context, "sys.tables")}
    assert tables["orders"]["is_tracked_by_cdc"] == 1
    assert tables["orders"]["type"] == "U "
    assert tables["change_tables"]["is_ms_shipped"] == 1
    (database,) = [r for r in view(context, "sys.databases") if r["name"] == "shop"]
    assert database["is_cdc_enabled"] == 1
    assert database["log_reuse_wait_desc"] == "NOTHING"


def test_log_waits_for_replication_while_changes_are_not_captured(context, orders):
    orders.insert("orders", (1, "a", 1, None))
    (database,) = [r for r in view(context, "sys.databases") if r["name"] == "shop"]
    assert (database["log_reuse_wait"], database["log_reuse_wait_desc"]) == (6, "REPLICATION")


def test_columns_have_sql_servers_sizes(context, shop):
    shop.create(
        "types",
        Column(0, "a", BIGINT, False, Identity(10, 5)),
        Column(0, "b", decimal_type(38, 10)),
        Column(0, "c", nvarchar(20)),
        Column(0, "d", nvarchar(MAX)),
        Column(0, "e", SqlType("datetime2", scale=3)),
        Column(0, "f", SqlType("datetimeoffset", scale=7)),
        Column(0, "g", SqlType("time", scale=0)),
    )
    object_id = shop.table("types").object_id
    rows = [row for row in view(context, "sys.columns") if row["object_id"] == object_id]
    sizes = [(r["system_type_id"], r["max_length"], r["precision"], r["scale"]) for r in rows]
    assert sizes == [
        (127, 8, 19, 0),
        (106, 17, 38, 10),
        (231, 40, 0, 0),
        (231, -1, 0, 0),
        (42, 7, 23, 3),
        (43, 10, 34, 7),
        (41, 3, 8, 0),
    ]
    columns, _ = call(context, "sp_columns_100", table_name="types", ODBCVer=3)
    shown = [(c["TYPE_NAME"], c["DATA_TYPE"], c["PRECISION"], c["LENGTH"]) for c in columns]
    assert shown == [
        ("bigint identity", -5, 19, 8),
        ("decimal", 3, 38, 40),
        ("nvarchar", -9, 20, 40),
        ("nvarchar", -9, 0, 0),
        ("datetime2", 93, 23, 16),
        ("datetimeoffset", -155, 34, 20),
        ("time", -154, 8, 12),
    ]
    assert len(columns[0]) == 29
    keys, _ = call(context, "sp_pkeys", table_name="types")
    assert [(k["COLUMN_NAME"], k["KEY_SEQ"], k["PK_NAME"]) for k in keys] == [("a", 1, "PK_types")]


def test_the_driver_gets_its_data_types(context):
    answers = {}
    for code in (12, -9, -3, 93):
        rows, _ = call(context, "sp_datatype_info_100", data_type=code, ODBCVer=4)
        answers[code] = rows[0]["PRECISION"]
        assert len(rows[0]) == 20
    assert answers == {12: 8000, -9: 4000, -3: 8000, 93: 27}


def test_sp_tables_lists_and_enumerates(context):
    rows, _ = call(context, "sp_tables", table_name="ord%")
    assert [(r["TABLE_OWNER"], r["TABLE_NAME"], r["TABLE_TYPE"]) for r in rows] == [
        ("dbo", "orders", "TABLE")
    ]
    assert call(context, "sp_tables", table_type="'VIEW'")[0] == []
    databases, _ = call(context, "sp_tables", table_name="", table_owner="", table_qualifier="%")
    assert {"master", "shop"} <= {r["TABLE_QUALIFIER"] for r in databases}


def test_cdc_procedures_report(context, orders):
    orders.insert("orders", (1, "a", 1, None))
    call(context, "sp_cdc_scan")
    (row,), _ = call(context, "sp_cdc_help_change_data_capture")
    assert row["source_table"] == "orders"
    assert row["index_column_list"] == "[id]"
    assert row["captured_column_list"] == "[id], [name], [amount], [note]"
    columns, _ = call(context, "sp_cdc_get_captured_columns", capture_instance="dbo_orders")
    assert [(c["data_type"], c["character_maximum_length"]) for c in columns] == [
        ("int", None),
        ("nvarchar", 50),
        ("decimal", None),
        ("nvarchar", -1),
    ]
    assert (columns[2]["numeric_precision"], columns[2]["numeric_scale"]) == (9, 2)
    jobs, _ = call(context, "sp_cdc_help_jobs")
    assert [(j["job_type"], j["pollinginterval"], j["retention"]) for j in jobs] == [
        ("capture", 5, 0),
        ("cleanup", 0, 4320),
    ]
    sessions = view(context, "sys.dm_cdc_log_scan_sessions")
    assert [s["session_id"] for s in sessions] == [0, 1]
    assert sessions[1]["tran_count"] == 1
    assert re.fullmatch(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}\0", sessions[1]["end_lsn"])


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({"source_schema": "dbo"}, 22972),
        ({"source_schema": "dbo", "source_name": "none"}, 22931),
    ],
)
def test_help_change_data_capture_refuses(context, given, number):
    with pytest.raises(SqlError) as error:
        call(context, "sp_cdc_help_change_data_capture", **given)
    assert error.value.number == number


def test_scan_parameters_are_checked(context):
    for given, number in (
        ({"maxtrans": 0}, 22991),
        ({"maxscans": 0}, 22970),
        ({"continuous": 2}, 22998),
        ({"pollinginterval": 5}, 22999),
        ({"pollinginterval": 86_400, "continuous": 1}, 22990),
    ):
        with pytest.raises(SqlError) as error:
            call(context, "sp_cdc_scan", **given)
        assert error.value.number == number


def test_job_procedures_send_their_messages(context):
    _, (stopped,) = call(context, "sp_cdc_stop_job")
    assert stopped.text == "Job 'cdc.shop_capture' stopped successfully."
    call(context, "sp_cdc_change_job", job_type="capture", maxtrans=7)
    _, (started,) = call(context, "sp_cdc_start_job", job_type="capture")
    assert started.text == "Job 'cdc.shop_capture' started successfully."
    jobs, _ = call(context, "sp_cdc_help_jobs")
    assert jobs[0]["maxtrans"] == 7


def test_max_text_repl_size_is_configured(context):
    (row,), _ = call(context, "sp_configure", configname="max text repl size")
    assert (row["minimum"], row["config_value"]) == (-1, 65536)
    call(context, "sp_configure", configname="max text repl", configvalue="-1")
    (row,), _ = call(context, "sp_configure", configname="max text repl size (B)")
    assert (row["config_value"], row["run_value"]) == (-1, 65536)
    reconfigure(context.engine)
    (row,), _ = call(context, "sp_configure", configname="max text repl size (B)")
    assert (row["config_value"], row["run_value"]) == (-1, -1)
    with pytest.raises(SqlError) as error:
        call(context, "sp_configure", configname="nothing")
    assert error.value.number == 15123


def test_a_captured_column_cannot_be_renamed(context, orders):
    with pytest.raises(SqlError) as error:
        call(context, "sp_rename", objname="dbo.orders.name", newname="title", objtype="COLUMN")
    assert error.value.number == 4928
    orders.scan()
    assert orders.rows("cdc", "ddl_history") == []


def test_metadata_functions(context, orders):
    object_id = orders.table("orders").object_id
    assert scalar(context, "DB_ID") == scalar(context, "DB_ID", "SHOP")
    assert scalar(context, "DB_NAME", 1) == "master"
    assert scalar(context, "OBJECT_ID", "[shop].[dbo].[orders]") == object_id
    assert scalar(context, "OBJECT_ID", "orders", "U") == object_id
    assert scalar(context, "OBJECT_ID", "orders", "P") is None
    assert scalar(context, "OBJECT_ID", "cdc.fn_cdc_get_all_changes_dbo_orders") is not None
    assert scalar(context, "OBJECT_NAME", object_id) == "orders"
    assert scalar(context, "OBJECT_SCHEMA_NAME", object_id, context.database.database_id) == "dbo"
    assert scalar(context, "COL_NAME", object_id, 2) == "name"
    assert scalar(context, "COLUMNPROPERTY", object_id, "id", "AllowsNull") == 0
    assert scalar(context, "OBJECTPROPERTY", object_id, "TableHasPrimaryKey") == 1
    assert scalar(context, "SCHEMA_NAME", scalar(context, "SCHEMA_ID", "cdc")) == "cdc"
    assert unpacked(scalar(context, "SERVERPROPERTY", "EngineEdition")) == (INT, 3)
    assert "embedded" in unpacked(scalar(context, "SERVERPROPERTY", "Edition"))[1]
    assert scalar(context, "IS_SRVROLEMEMBER", "sysadmin") == 1
    assert scalar_function(context, None, "fn_cdc_get_max_lsn") is None


def test_globals_have_types(context):
    assert global_variable(context, "@@SPID") == (SqlType("smallint"), 51)
    assert global_variable(context, "@@TRANCOUNT") == (INT, 0)
    _, version = global_variable(context, "@@version")
    assert "16.0" in version
    assert global_variable(context, "@@nothing") is None


def test_change_functions_are_found_by_instance(context, orders):
    orders.insert("orders", (1, "a", 1, None))
    orders.scan()
    connection = orders.session.connection
    function = table_function(context, orders.database, "CDC", "fn_cdc_get_all_changes_dbo_orders")
    names = [column.name for column in function.columns]
    assert names == [
        *("__$start_lsn", "__$seqval", "__$operation", "__$update_mask"),
        *("id", "name", "amount", "note"),
    ]
    low = scalar(context, "sys.fn_cdc_get_min_lsn", "dbo_orders")
    high = scalar(context, "sys.fn_cdc_get_max_lsn")
    source = function.bind(context, (low, high, "all"))
    assert connection.execute(source.sql, source.bindings).fetchall()[0][4:6] == (1, "a")
    assert table_function(context, orders.database, "cdc", "fn_cdc_get_all_changes_x") is None


def test_role_is_listed_with_its_members(context):
    call(context, "sp_addrole", rolename="readers")
    call(context, "sp_addrolemember", rolename="readers", membername="guest")
    assert scalar(context, "IS_ROLEMEMBER", "readers", "guest") == 1
    assert len(view(context, "sys.database_role_members")) == 1
    call(context, "sp_droprolemember", rolename="readers", membername="guest")
    assert view(context, "sys.database_role_members") == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ObjectName("t")),
        ("[a.b]..[c]]d]", ObjectName("c]d", "", "a.b")),
        ('s."t t"', ObjectName("t t", "s")),
        ("a.b.c.d.e", None),
        ("[open", None),
    ],
)
def test_names_are_split(text, parts):
    assert split_name(text) == parts


def test_all_procedures_are_reachable_without_schema(context):
    assert all(find_procedure(context, None, name) is not None for name in PROCEDURES)
    assert find_procedure(context, None, "sp_cdc_enable_db") is not None
    assert find_procedure(context, "cdc", "sp_tables") is None


def test_disabling_a_database_waits_for_who_writes_its_tables(context, orders):
    writer = StoreSession(orders.engine, 52)
    writer.begin()
    with writer.statement():
        writer.insert(orders.table("orders"), [(1, "a", 1, None)])
    with ThreadPoolExecutor(1) as pool:
        disabled = pool.submit(call, context, "sp_cdc_disable_db")
        until_waiting(orders.engine)
        writer.commit()
        assert disabled.result(10) == ([], [])
    writer.close()
    assert not orders.database.options["is_cdc_enabled"]


def test_a_transaction_whose_database_is_dropped_says_so(orders):
    other = orders.engine.create_database("other")
    table = ddl.create_table(orders.session, other, "dbo", "t", [Column(0, "id", INT, False)])
    orders.session.begin()
    with orders.session.statement():
        orders.session.insert(table, [(1,)])
    orders.engine.drop_database("other")
    with pytest.raises(SqlError) as error:
        orders.session.commit()
    assert error.value.number == 913


def until_waiting(engine):
    """Until a session waits for a lock; bounded."""
    deadline, pause = time.monotonic() + 30, threading.Event()
    while not engine.locks.waiters:
        assert time.monotonic() < deadline, "nobody waits"
        pause.wait(0.005)
