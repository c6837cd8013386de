import pytest

from tailrace_emulator.cdc import jobs
from tailrace_emulator.cdc.capture_instance import capture_instances
from tailrace_emulator.cdc.column_list import split_column_list
from tailrace_emulator.cdc.disable import disable_table
from tailrace_emulator.cdc.enable_database import disable_database, enable_database
from tailrace_emulator.cdc.enable_table import EnableTable, enable_table
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.model import Column, Index
from tailrace_emulator.storage.principal_model import Principal
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.types import INT, nvarchar

METADATA_COLUMNS = {
    "captured_columns": [
        "object_id",
        "column_name",
        "column_id",
        "column_type",
        "column_ordinal",
        "is_computed",
    ],
    "change_tables": [
        "object_id",
        "version",
        "source_object_id",
        "capture_instance",
        "start_lsn",
        "end_lsn",
        "supports_net_changes",
        "has_drop_pending",
        "role_name",
        "index_name",
        "filegroup_name",
        "create_date",
        "partition_switch",
    ],
    "ddl_history": [
        "source_object_id",
        "object_id",
        "required_column_update",
        "ddl_command",
        "ddl_lsn",
        "ddl_time",
    ],
    "index_columns": ["object_id", "column_name", "index_ordinal", "column_id"],
    "lsn_time_mapping": [
        "start_lsn",
        "tran_begin_time",
        "tran_end_time",
        "tran_id",
        "tran_begin_lsn",
    ],
}


def refused(shop, number, **options):
    request = {"source_schema": "dbo", "source_name": "orders", "role_name": None} | options
    with pytest.raises(SqlError) as error:
        enable_table(shop.engine, shop.database, EnableTable(**request))
    assert error.value.number == number


@pytest.fixture
def plain(shop):
    shop.create(
        "orders",
        Column(0, "id", INT, False),
        Column(0, "name", nvarchar(50), False),
        Column(0, "optional", INT),
    )
    return shop


def test_enabling_a_database_creates_schema_user_and_tables(shop):
    assert shop.database.options["is_cdc_enabled"]
    assert "cdc" in shop.database.schemas
    assert shop.database.principals["cdc"].type == "S"
    for name, columns in METADATA_COLUMNS.items():
        table = shop.database.table("cdc", name)
        assert [column.name for column in table.columns] == columns
        assert table.is_ms_shipped
    assert not enable_database(shop.engine, shop.database)


def test_system_databases_are_refused(shop):
    with pytest.raises(SqlError) as error:
        enable_database(shop.engine, shop.engine.database("master"))
    assert error.value.number == 22989


@pytest.mark.parametrize("taken", ["schema", "user"])
def test_existing_schema_or_user_cdc_is_refused(shop, taken):
    database = shop.engine.create_database("other")
    with shop.engine.write() as connection:
        if taken == "schema":
            ddl.create_schema(connection, database, "CDC")
        else:
            ddl.put_principal(connection, database, Principal(9, "Cdc", "S"))
    with pytest.raises(SqlError) as error:
        enable_database(shop.engine, database)
    assert error.value.number == 22906
    assert not database.options.get("is_cdc_enabled")


def test_enabling_a_table_fills_the_metadata_and_starts_the_jobs(plain):
    notices = enable_table(plain.engine, plain.database, EnableTable("DBO", "Orders", "reader "))

    assert [(n.number, n.text) for n in notices] == [
        (14243, "Job 'cdc.shop_capture' started successfully."),
        (14243, "Job 'cdc.shop_cleanup' started successfully."),
    ]
    (instance,) = capture_instances(plain.session.connection, plain.database)
    assert instance.name == "dbo_orders"
    assert (instance.index_name, instance.index_columns) == ("PK_orders", ("id",))
    assert instance.supports_net_changes
    assert instance.role_name == "reader"
    assert plain.database.principals["reader"].type == "R"
    assert plain.table("orders").is_tracked
    captured = plain.rows("cdc", "captured_columns")
    assert [(c["column_name"], c["column_id"], c["column_ordinal"]) for c in captured] == [
        ("id", 1, 1),
        ("name", 2, 2),
        ("optional", 3, 3),
    ]


def test_a_second_table_starts_no_jobs(plain):
    plain.track("orders")
    plain.create("other", Column(0, "id", INT, False))
    assert enable_table(plain.engine, plain.database, EnableTable("dbo", "other", None)) == []


def test_at_most_two_instances_with_unique_names(plain):
    plain.track("orders")
    refused(plain, 22926)
    plain.track("orders", capture_instance="second")
    refused(plain, 22962, capture_instance="third")


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (22963, {"source_schema": None}),
        (22963, {"source_name": " "}),
        (22931, {"source_name": "nothing"}),
        (22974, {"source_schema": "cdc", "source_name": "change_tables"}),
        (22907, {"role_name": "  "}),
        (22927, {"capture_instance": "x" * 101}),
        (22932, {"capture_instance": "  "}),
        (22928, {"index_name": "none"}),
        (22929, {"index_name": "ix_name"}),
        (22838, {"index_name": "uq_optional"}),
        (22942, {"captured_column_list": "id,unknown"}),
        (22965, {"captured_column_list": "[id"}),
        (22943, {"captured_column_list": "name"}),
        (22973, {"filegroup_name": "fast"}),
    ],
)
def test_bad_parameters_have_their_numbers(plain, number, options):
    table = plain.table("orders")
    for name, column, unique in (("ix_name", 2, False), ("uq_optional", 3, True)):
        table = ddl.create_index(
            plain.session, plain.database, table, Index(0, name, (column,), (), unique)
        )
    refused(plain, number, **options)
    assert not plain.table("orders").is_tracked


def test_net_changes_need_a_key(shop):
    shop.create("heap", Column(0, "id", INT, False), key=())
    refused(shop, 22939, source_name="heap", supports_net_changes=True)
    shop.track("heap")
    (instance,) = capture_instances(shop.session.connection, shop.database)
    assert (instance.supports_net_changes, instance.index_name) == (False, None)


def test_index_name_takes_precedence_over_the_primary_key(plain):
    ddl.create_index(
        plain.session,
        plain.database,
        plain.table("orders"),
        Index(0, "uq_name", (2, 1), (), unique=True),
    )
    plain.track("orders", index_name="UQ_name")
    (instance,) = capture_instances(plain.session.connection, plain.database)
    assert (instance.index_name, instance.index_columns) == ("uq_name", ("name", "id"))


def test_reserved_column_names_must_be_left_out(shop):
    shop.create("odd", Column(0, "id", INT, False), Column(0, "__$seqval", INT))
    refused(shop, 22975, source_name="odd")
    shop.track("odd", captured_column_list="id")


def test_partition_switch_warns(plain):
    notices = enable_table(
        plain.engine,
        plain.database,
        EnableTable("dbo", "orders", None, allow_partition_switch=False),
    )
    assert (notices[0].number, notices[0].severity) == (22857, 10)


def test_disabling_one_instance_keeps_the_other(plain):
    plain.track("orders")
    plain.track("orders", capture_instance="second")
    disable_table(plain.engine, plain.database, "dbo", "orders", "SECOND")
    (instance,) = capture_instances(plain.session.connection, plain.database)
    assert instance.name == "dbo_orders"
    assert plain.table("orders").is_tracked
    assert plain.database.table("cdc", "second_CT") is None

    disable_table(plain.engine, plain.database, "dbo", "orders", "all")
    assert not plain.table("orders").is_tracked
    for name in ("change_tables", "captured_columns", "index_columns"):
        assert plain.rows("cdc", name) == []


def test_disabling_what_is_not_enabled(plain):
    for number, arguments in (
        (22985, ("dbo", "orders", "dbo_orders")),
        (22985, ("dbo", "nothing", "all")),
        (22963, ("dbo", "orders", None)),
    ):
        with pytest.raises(SqlError) as error:
            disable_table(plain.engine, plain.database, *arguments)
        assert error.value.number == number
    disable_table(plain.engine, plain.database, "dbo", "orders", "all")
    plain.track("orders")
    with pytest.raises(SqlError) as error:
        disable_table(plain.engine, plain.database, "dbo", "orders", "other")
    assert error.value.number == 22960


def test_disabling_the_database_removes_everything(plain):
    plain.track("orders")
    disable_database(plain.engine, plain.database)

    assert "cdc" not in plain.database.schemas
    assert "cdc" not in plain.database.principals
    assert [t.schema for t in plain.database.tables()] == ["dbo"]
    assert not plain.table("orders").is_tracked
    with plain.engine.write() as connection:
        assert jobs.jobs_of(connection, plain.engine) == []
    with pytest.raises(SqlError) as error:
        plain.scan()
    assert error.value.number == 22901
    assert enable_database(plain.engine, plain.database)


def test_everything_survives_a_restart(plain, tmp_path):
    plain.track("orders")
    plain.insert("orders", (1, "a", None))
    plain.session.close()
    plain.engine.close()
    engine = Engine(tmp_path / "data", plain.clock, ChangeDataCapture())
    plain.engine, plain.database = engine, engine.database("shop")
    plain.session = StoreSession(engine, 51)

    plain.scan()

    assert [r["id"] for r in plain.changes("dbo_orders")] == [1]
    engine.close()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        (" id, name , email ", ["id", "name", "email"]),
        ('[a,b],"c""d",[e]]f]', ["a,b", 'c"d', "e]f"]),
        ("[ a ] , b c", [" a ", "b c"]),
    ],
)
def test_column_lists(text, names):
    assert split_column_list(text) == names


@pytest.mark.parametrize("text", ["[a", '"a', "[a]b"])
def test_unterminated_column_lists(text):
    with pytest.raises(SqlError) as error:
        split_column_list(text)
    assert error.value.number == 22965
