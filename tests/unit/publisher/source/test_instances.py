"""Which capture instance, which key, which version."""

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.source.catalog.capture_catalog import UniqueKey
from tailrace_publisher.source.catalog.keys import choose_keys, key_problem
from tailrace_publisher.source.catalog.table_instances import TableInstances, choose_instance
from tailrace_publisher.source.catalog.versions import (
    current_columns,
    registered_form,
    timeline,
    version_at,
    versions_of,
)
from tailrace_publisher.source.pages.column_values import change_value
from tailrace_publisher.source.pages.page_statements import PageStatements
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import (
    SchemaColumn,
    TableSchema,
    envelope_schema,
    table_schema_of,
)
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("db", "dbo", "flights")


def at(block: int) -> Lsn:
    return Lsn(1, block, 0)


def column(number: int, name: str, type_: ColumnType, *, nullable: bool = True) -> CapturedColumn:
    return CapturedColumn(number, name, number, type_, nullable, is_computed=False, in_source=True)


COLUMNS = (
    column(1, "id", ColumnType("int"), nullable=False),
    column(2, "code", ColumnType("char", length=3), nullable=False),
    column(3, "note", ColumnType("nvarchar", length=50)),
)


def instance(name: str, start: int | None = 10) -> CaptureInstance:
    return CaptureInstance(
        name=name,
        table=TABLE,
        low_watermark=None if start is None else at(start),
        create_date=datetime(2013, 1, 1),  # noqa: DTZ001
        object_id=1,
        source_object_id=2,
        supports_net_changes=True,
        ordered_by_command_id=True,
        columns=COLUMNS,
        key=("id",),
        identity=("id",),
    )


def test_the_newer_instance_takes_over_behind_its_hand_over():
    older, newer = instance("a"), instance("b", 20)
    starts = {"a": at(10), "b": at(20)}

    assert choose_instance([older, newer], starts, at(20)) is older
    assert choose_instance([older, newer], starts, at(21)) is newer


def test_where_instances_start_gives_their_order_and_no_date_does():
    older = replace(instance("a", 10), create_date=datetime(2013, 1, 2))  # noqa: DTZ001
    newer = replace(instance("b", 20), create_date=datetime(2013, 1, 1))  # noqa: DTZ001

    found = TableInstances.of([newer, older])
    assert (found.oldest, found.newest) == (older, newer)
    # Cleanup has raised the watermark of the older one: it still covers the table from 10 on.
    cleaned = replace(older, low_watermark=at(30))
    found = TableInstances.of([newer, cleaned], {"a": at(10), "b": at(20)})
    assert (found.oldest, found.newest) == (cleaned, newer)


def test_an_instance_without_a_start_is_the_newest_and_dates_decide_among_equals():
    started = replace(instance("a", 10), create_date=datetime(2013, 1, 9))  # noqa: DTZ001
    waiting = instance("b", None)
    assert TableInstances.of([waiting, started]).newest is waiting
    assert TableInstances.of([started, instance("c", 10)]).newest is started
    later = replace(waiting, name="d", create_date=datetime(2013, 1, 2))  # noqa: DTZ001
    assert TableInstances.of([later, waiting]).newest is later


def test_before_any_of_them_the_one_that_begins_first_is_read_whatever_its_date():
    older, newer = instance("a"), instance("b", 20)
    assert choose_instance([newer, older], {"a": at(10), "b": at(20)}, at(5)) is older


def test_an_instance_that_the_capture_process_does_not_know_yet_is_not_read():
    older, newer = instance("a"), instance("b", None)

    assert choose_instance([older, newer], {"a": at(10)}, at(30)) is older
    assert choose_instance([newer], {}, at(30)) is None


def primary(*column_ids: int) -> UniqueKey:
    return UniqueKey(column_ids, is_primary=True)


def index(*column_ids: int) -> UniqueKey:
    return UniqueKey(column_ids, is_primary=False)


def test_the_key_is_the_configured_one_else_the_primary_key_else_the_index():
    code, note = index(2), index(3)
    assert choose_keys(COLUMNS, [primary(1), code], ["code"], ["NOTE"]) == (("note",), ("id",))
    assert choose_keys(COLUMNS, [primary(1), code], ["code"], []) == (("id",), ("id",))
    assert choose_keys(COLUMNS, [code], ["code"], []) == (("code",), ("code",))
    assert choose_keys(COLUMNS, [note], ["note"], []) == (("note",), ())
    assert choose_keys(COLUMNS, [primary(99)], [], []) == ((), ())
    assert choose_keys(COLUMNS, [], [], []) == ((), ())


def test_rows_are_told_apart_by_the_primary_key_whatever_the_event_key_is():
    pk = primary(1)
    assert choose_keys(COLUMNS, [pk], [], ["id"]) == (("id",), ("id",))
    assert choose_keys(COLUMNS, [pk], [], ["id", "code"]) == (("id", "code"), ("id",))
    assert choose_keys(COLUMNS, [primary(2, 1)], ["id"], ["code"]) == (("code",), ("code", "id"))
    assert choose_keys(COLUMNS, [index(1)], ["id"], ["note"]) == (("note",), ("id",))


def test_an_index_that_identifies_no_row_any_more_is_no_key():
    """It has a filter, or was dropped, and capture still names its columns."""
    assert choose_keys(COLUMNS, [], ["code"], []) == ((), ())
    assert choose_keys(COLUMNS, [index(3)], ["code"], []) == ((), ())
    assert choose_keys(COLUMNS, [index(1, 2)], ["code"], []) == ((), ())
    assert choose_keys(COLUMNS, [index(1)], ["id", "code"], []) == (("id", "code"), ("id", "code"))


def test_what_has_no_value_in_the_change_table_tells_no_rows_apart():
    computed = replace(COLUMNS[0], is_computed=True)
    variant = replace(COLUMNS[0], type=ColumnType("sql_variant"))
    unique = [primary(1), index(2)]

    assert choose_keys((computed, *COLUMNS[1:]), unique, ["code"], []) == (("code",), ("code",))
    assert choose_keys((computed, *COLUMNS[1:]), unique, [], []) == ((), ())
    assert choose_keys((computed, *COLUMNS[1:]), [index(1)], ["id"], []) == ((), ())
    assert choose_keys((variant, *COLUMNS[1:]), [primary(1)], [], []) == (("id",), ())


def test_a_message_key_that_change_tables_do_not_hold_is_refused_by_name():
    computed = replace(COLUMNS[1], is_computed=True)

    assert key_problem("dbo.flights", COLUMNS, ["ID", "note"]) is None
    text = key_problem("dbo.flights", (COLUMNS[0], computed), ["id", "CODE"])
    assert text is not None
    assert "message_keys.dbo.flights: column code is computed" in text
    text = key_problem("dbo.flights", COLUMNS, ["cod"])
    assert text is not None
    assert "message_keys.dbo.flights: column cod is not captured" in text
    with pytest.raises(ColumnsRefused, match="column cod is not captured"):
        current_columns(replace(instance("a"), key_problem=text))


def test_columns_that_differ_in_case_only_are_chosen_by_their_spelling():
    columns = (
        column(1, "ID", ColumnType("int"), nullable=False),
        column(2, "Id", ColumnType("int"), nullable=False),
        column(3, "id", ColumnType("int"), nullable=False),
    )

    for number, name in enumerate(("ID", "Id", "id"), 1):
        assert choose_keys(columns, [index(number)], [name], []) == ((name,), (name,))
        assert choose_keys(columns, [], [], [name]) == ((name,), ())
    assert choose_keys(columns, [], [], ["iD"]) == (("ID",), ())


def test_the_first_version_begins_at_the_start_lsn():
    columns = current_columns(instance("a"))

    versions = timeline(instance("a"), columns, [], [], at(15))

    assert [version.schema_lsn for version in versions] == [at(10)]
    assert versions[0].columns == columns


def test_a_restart_finds_the_registered_version_though_cleanup_moved_the_start():
    columns = current_columns(instance("a"))
    first = TableSchema(TABLE, "a", at(10), columns)
    registered = table_schema_of(envelope_schema("p", first))

    versions = timeline(instance("a", 40), columns, [], [registered], at(50))

    assert versions == (registered,)


def test_each_row_has_the_version_of_its_position_though_the_table_was_altered_since():
    old = current_columns(instance("a"))
    registered = TableSchema(TABLE, "a", at(10), registered_form(old))
    new = (replace(old[0], type=ColumnType("bigint")), *old[1:])

    versions = timeline(instance("a"), new, [at(30)], [registered], at(20))

    assert version_at(versions, at(29)).columns[0].type == ColumnType("int")
    assert version_at(versions, at(30)).columns[0].type == ColumnType("bigint")
    assert version_at(versions, at(99)).schema_lsn == at(30)


def test_versions_of_an_older_instance_of_the_same_name_are_not_taken_for_its_own():
    """Disabled, altered, enabled again and altered once more while nobody looked."""
    columns = current_columns(instance("a"))
    older = TableSchema(TABLE, "a", at(10), columns)
    fewer = TableSchema(TABLE, "a", at(30), columns[:-1])
    own = TableSchema(TABLE, "a", at(40), columns)
    other = TableSchema(TABLE, "b", at(40), columns)

    of_new = versions_of(instance("a", 40), [older, fewer, own, other], at(40), at(20))
    of_known = versions_of(instance("a", 40), [older, fewer, own, other], at(40), at(50))

    assert of_new == [own]
    assert of_known == [older, own]


def test_another_key_in_the_configuration_begins_a_version_at_our_position():
    columns = current_columns(instance("a"))
    registered = TableSchema(TABLE, "a", at(10), registered_form(columns))
    rekeyed = (replace(columns[0], key_ordinal=0), replace(columns[1], key_ordinal=1), columns[2])

    versions = timeline(instance("a"), rekeyed, [], [registered], at(50))

    assert [version.schema_lsn for version in versions] == [at(10), at(50)]
    assert versions[-1].columns == rekeyed


def test_only_what_can_carry_seven_digits_becomes_lossless():
    times = replace(
        instance("a"),
        columns=(
            column(1, "id", ColumnType("int"), nullable=False),
            column(2, "exact", ColumnType("datetime2", scale=7)),
            column(3, "coarse", ColumnType("datetime2", scale=3)),
        ),
    )

    found = current_columns(times, ["EXACT", "coarse"])

    assert [c.lossless for c in found] == [False, True, False]
    assert change_value(found[1], None) == "CONVERT(varchar(27), [exact], 121)"


def test_an_older_version_reads_its_own_type():
    narrow = SchemaColumn(1, "id", ColumnType("int"))

    assert change_value(narrow, ColumnType("bigint")) == "CAST([id] AS int)"
    assert change_value(narrow, ColumnType("int")) == "CAST([id] AS int)"


def test_names_are_quoted_in_the_page_statements():
    odd = replace(instance("we]ird'name"), columns=(column(1, "a]b", ColumnType("int")),), key=())
    schema = TableSchema(TABLE, odd.name, at(10), current_columns(odd))

    statements = PageStatements.of(odd, schema)

    for statement in (statements.rest, statements.rest_without_id, statements.later):
        assert "cdc.[we]]ird'name_CT]" in statement
        assert "[a]]b]" in statement
    assert statements.rest.count("?") == 8
    assert statements.later.count("?") == 3


def test_nothing_else_decides_which_instance_is_the_newest():
    root = Path(__file__).parents[4]
    files = [*root.glob("publisher/**/*.py"), *root.glob("tailrace/**/*.py")]
    of_their_own = {"table_instances.py", "probe.py"}  # the latter takes any of a group
    found = [
        f"{path.name}: {line.strip()}"
        for path in files
        if path.name not in of_their_own
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(?<!record\.)\binstances\[(-1|0)\]|key=.*create_date", line)
    ]
    assert found == []
