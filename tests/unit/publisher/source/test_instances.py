"""Which capture instance, which key, which version."""

from dataclasses import replace
from datetime import datetime

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.source.catalog.instances import choose_instance
from tailrace_publisher.source.catalog.keys import choose_keys
from tailrace_publisher.source.catalog.versions import (
    current_columns,
    registered_form,
    timeline,
    version_at,
    versions_of,
)
from tailrace_publisher.source.pages.page_statements import PageStatements, value_expression
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


def test_before_any_of_them_the_one_that_begins_first_is_read_whatever_its_date():
    older, newer = instance("a"), instance("b", 20)
    assert choose_instance([newer, older], {"a": at(10), "b": at(20)}, at(5)) is older


def test_an_instance_that_the_capture_process_does_not_know_yet_is_not_read():
    older, newer = instance("a"), instance("b", None)

    assert choose_instance([older, newer], {"a": at(10)}, at(30)) is older
    assert choose_instance([newer], {}, at(30)) is None


def test_the_key_is_the_configured_one_else_the_primary_key_else_the_index():
    assert choose_keys(COLUMNS, [1], ["code"], ["NOTE"]) == (("note",), ("id",))
    assert choose_keys(COLUMNS, [1], ["code"], []) == (("id",), ("id",))
    assert choose_keys(COLUMNS, [], ["code"], []) == (("code",), ("code",))
    assert choose_keys(COLUMNS, [], ["note"], []) == (("note",), ())
    assert choose_keys(COLUMNS, [99], [], []) == ((), ())
    assert choose_keys(COLUMNS, [], [], []) == ((), ())


def test_rows_are_told_apart_by_the_primary_key_whatever_the_event_key_is():
    assert choose_keys(COLUMNS, [1], [], ["id"]) == (("id",), ("id",))
    assert choose_keys(COLUMNS, [1], [], ["id", "code"]) == (("id", "code"), ("id",))
    assert choose_keys(COLUMNS, [2, 1], ["id"], ["code"]) == (("code",), ("code", "id"))
    assert choose_keys(COLUMNS, [], ["id"], ["note"]) == (("note",), ("id",))


def test_what_has_no_value_in_the_change_table_tells_no_rows_apart():
    computed = replace(COLUMNS[0], is_computed=True)
    variant = replace(COLUMNS[0], type=ColumnType("sql_variant"))

    assert choose_keys((computed, *COLUMNS[1:]), [1], ["code"], [])[1] == ("code",)
    assert choose_keys((variant, *COLUMNS[1:]), [1], [], [])[1] == ()


def test_columns_that_differ_in_case_only_are_chosen_by_their_spelling():
    columns = (
        column(1, "ID", ColumnType("int"), nullable=False),
        column(2, "Id", ColumnType("int"), nullable=False),
        column(3, "id", ColumnType("int"), nullable=False),
    )

    for name in ("ID", "Id", "id"):
        assert choose_keys(columns, [], [name], []) == ((name,), (name,))
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
    assert value_expression(found[1]) == "CONVERT(varchar(27), [exact], 121)"


def test_an_older_version_reads_its_own_type():
    narrow = SchemaColumn(1, "id", ColumnType("int"))

    assert value_expression(narrow, ColumnType("bigint")) == "CAST([id] AS int)"
    assert value_expression(narrow, ColumnType("int")) == "[id]"


def test_names_are_quoted_in_the_page_statements():
    odd = replace(instance("we]ird'name"), columns=(column(1, "a]b", ColumnType("int")),), key=())
    schema = TableSchema(TABLE, odd.name, at(10), current_columns(odd))

    statements = PageStatements.of(odd, schema)

    for statement in (statements.rest, statements.rest_without_id, statements.later):
        assert "cdc.[we]]ird'name_CT]" in statement
        assert "[a]]b]" in statement
    assert statements.rest.count("?") == 8
    assert statements.later.count("?") == 3
