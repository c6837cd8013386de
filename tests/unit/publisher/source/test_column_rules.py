"""Which columns are published, what is made of their values, and which version says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.encode.columns.value_hash import ValueHash, rules_of
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_publisher.errors import ColumnsRefused, ConfigError
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.source.catalog.versions import (
    current_columns,
    registered_form,
    timeline,
    version_at,
    versions_of,
)
from tailrace_publisher.source.pages.column_values import source_value
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import (
    SchemaColumn,
    TableSchema,
    envelope_schema,
    table_schema_of,
)
from tailrace_schemas.position.change_position import Operation
from tests.unit.publisher.source.test_instances import TABLE, at, column, instance

NVARCHAR = ColumnType("nvarchar", length=50)
PEOPLE = replace(
    instance("people"),
    columns=(
        column(1, "id", ColumnType("int"), nullable=False),
        column(2, "name", NVARCHAR),
        column(3, "born", ColumnType("date")),
        column(4, "letter", ColumnType("nvarchar", length=MAX)),
        column(5, "scan", ColumnType("image")),
        column(6, "score", ColumnType("int")),
    ),
)


def rules(**options: Any) -> ColumnRules:
    return rules_of(ColumnsConfig(**options))


def published(found: CaptureInstance = PEOPLE, **options: Any) -> dict[str, SchemaColumn]:
    return {c.name: c for c in current_columns(found, (), rules(**options))}


def test_excluded_columns_are_not_read_and_the_mask_still_names_the_others():
    columns = published(exclude=[r".*\.(name|LETTER)"])

    assert list(columns) == ["id", "born", "scan", "score"]
    mask = UpdateMask(TableSchema(TABLE, "people", at(1), tuple(columns.values())))
    assert mask.changed(bytes([0b101110])) == ("born", "score")
    assert mask.left_alone([1, None, None, 2], bytes([0b100000])) == (2,)
    assert mask.left_alone([1, None, None, 2], bytes([0b010000])) == ()


OLD_TYPES = ("text", "ntext", "image")


def test_a_before_image_never_has_text():
    """Whatever the mask says of it: the documentation of change tables."""
    schema = TableSchema(TABLE, "t", at(1), (
        SchemaColumn(1, "id", ColumnType("int")),
        *[SchemaColumn(n, name, ColumnType(name)) for n, name in enumerate(OLD_TYPES, 2)],
        SchemaColumn(5, "max", ColumnType("varchar", length=-1)),
    ))  # fmt: skip
    mask, changed, left = UpdateMask(schema), b"\x1f", b"\x01"
    columns = [[7], *[[None]] * 4]

    def untold(operation: int, bits: bytes) -> tuple[str, ...]:
        (names,) = mask.unavailable(columns, [0], [operation], [bits])
        places = {"text": 1, "ntext": 2, "image": 3, "max": 4}
        assert names == tuple(n for n, p in places.items() if mask.is_untold(p, operation, bits))
        return names

    assert untold(Operation.UPDATE_BEFORE, changed) == OLD_TYPES
    assert untold(Operation.UPDATE_BEFORE, left) == (*OLD_TYPES, "max")
    assert untold(Operation.UPDATE_AFTER, changed) == ()
    assert untold(Operation.UPDATE_AFTER, left) == (*OLD_TYPES, "max")
    assert untold(Operation.DELETE, changed) == OLD_TYPES
    assert untold(Operation.INSERT, changed) == ()


def test_without_options_a_version_is_what_it_was():
    assert current_columns(PEOPLE, (), rules()) == current_columns(PEOPLE)
    assert not any(c.ordinal for c in published(mask={r".*\.name": "x"}).values())


def test_what_is_published_has_a_type_of_its_own():
    columns = published(
        mask={r".*\.(born|scan)": "***"}, truncate={r".*\.letter": 9}, hash=[r".*\.(name|score)"],
        salt="a salt of ours",
    )  # fmt: skip

    assert {name: str(c.type) for name, c in columns.items()} == {
        "id": "int",
        "name": "char(64)",
        "born": "nvarchar(3)",
        "letter": "nvarchar(max)",
        "scan": "ntext",
        "score": "char(64)",
    }
    assert columns["letter"].type.is_large
    assert columns["scan"].type.is_large
    schema = TableSchema(TABLE, "people", at(1), tuple(columns.values()))
    assert table_schema_of(envelope_schema("p", schema)).columns == registered_form(schema.columns)
    assert "a salt of ours" not in str(envelope_schema("p", schema))
    assert {name: source_value(c, None) for name, c in columns.items()} == {
        "id": "[id]",
        "name": "CAST([name] AS nvarchar(50))",
        "born": "CASE WHEN [born] IS NOT NULL THEN CAST(N'***' AS nvarchar(3)) END",
        "letter": "CAST(CAST([letter] AS nvarchar(max)) AS nvarchar(9))",
        "scan": "CASE WHEN [scan] IS NOT NULL THEN CAST(N'***' AS nvarchar(3)) END",
        "score": "CAST([score] AS nvarchar(11))",
    }


def test_a_text_of_a_mask_cannot_leave_its_literal():
    masked = published(mask={r".*\.name": "' + (SELECT 1) + '"})["name"]

    assert "N''' + (SELECT 1) + '''" in source_value(masked, None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"exclude": [r".*\.id"]}, "column id: columns.include and columns.exclude leave out"),
        ({"include": [r".*\.name"]}, "column id: columns.include and columns.exclude leave out"),
        ({"mask": {r"dbo\.flights\..*": "x"}}, "column id: columns.mask"),
        ({"hash": [r".*\.id"], "salt": "12345678"}, "column id: columns.hash"),
        ({"truncate": {r".*\.born": 1}}, "column born: columns.truncate '.*\\\\.born' is for a"),
        ({"hash": [r".*\.born"], "salt": "12345678"}, "column born: columns.hash"),
        ({"mask": {".*name": "x", ".*ame": "y"}}, "are both for it"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, Any], told: str):
    with pytest.raises(ColumnsRefused) as refused:
        published(**options)

    assert told in str(refused.value)


def test_a_table_is_not_left_without_columns():
    keyless = replace(PEOPLE, key=(), identity=())

    with pytest.raises(ColumnsRefused, match="leave no column"):
        published(keyless, exclude=[r"dbo\.flights\..*"])


def test_plain_names_of_no_captured_column_are_named():
    found = rules(exclude=["dbo.flights.nmae", r"DBO\.flights\.name", ".*x"])

    assert found.unmatched([PEOPLE]) == [("columns.exclude", "dbo.flights.nmae")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"exclude": ["("]}, "'(' is not a regular expression"),
        ({"mask": {"[": "x"}}, "'[' is not a regular expression"),
        ({"truncate": {".*": 0}}, "greater than or equal to 1"),
        ({"truncate": {".*": 4001}}, "less than or equal to 4000"),
        ({"mask": {".*": "x" * 201}}, "at most 200"),
        ({"mask": {".*": "a\0"}}, "what is no character"),
        ({"hash": [".*"]}, "hash needs a salt"),
        ({"hash": [".*"], "salt": "1234567"}, "fewer than 8"),
        (
            {"hash": [".*"], "salt": "12345678", "salt_file": "x"},
            "salt and salt_file exclude each other",
        ),
    ],
)
def test_wrong_options_are_told_at_once(options: dict[str, Any], told: str):
    with pytest.raises(ValueError, match="validation error") as refused:
        ColumnsConfig(**options)

    assert told in str(refused.value)


def test_the_salt_comes_from_a_file_and_is_shown_nowhere(tmp_path: Path):
    path = tmp_path / "salt"
    path.write_text("CzQMA0cB5K\nanother line\n", encoding="utf-8")
    options = ColumnsConfig(hash=[".*"], salt_file=path)
    given = ColumnsConfig(hash=[".*"], salt="CzQMA0cB5K")

    hashes = ValueHash.of_options(options)

    assert hashes is not None
    # printf %s CzQMA0cB5KÜber | sha256sum
    assert hashes.of("Über") == "c229943c2f7cd60a5e05da0a5bedb3885390cc228c14a2e416b3d6996af6555c"
    assert hashes.of(None) is None
    assert rules_of(options).salt_id == rules_of(given).salt_id
    assert "CzQMA0cB5K" not in f"{given!r} {given} {hashes!r} {rules_of(given)!r}"
    path.write_text("short", encoding="utf-8")
    with pytest.raises(ConfigError, match="fewer than 8"):
        options.read_salt()
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        options.read_salt()


def test_other_options_begin_a_version_at_our_position():
    plain = TableSchema(TABLE, "people", at(10), registered_form(current_columns(PEOPLE)))
    columns = tuple(published(exclude=[r".*\.letter"], mask={".*name": "x"}).values())

    found = versions_of(PEOPLE, [plain], at(10), at(50))
    versions = timeline(PEOPLE, columns, [], found, at(50))

    assert [v.schema_lsn for v in versions] == [at(10), at(50)]
    assert versions[-1].columns == columns
    again = TableSchema(TABLE, "people", at(50), registered_form(columns))
    found = versions_of(PEOPLE, [plain, again], at(10), at(60))
    assert timeline(PEOPLE, columns, [], found, at(60)) == tuple(found)
    back = timeline(PEOPLE, current_columns(PEOPLE), [], found, at(60))
    assert [v.schema_lsn for v in back] == [at(10), at(50), at(60)]


def test_nothing_that_is_still_to_come_is_published_by_older_options():
    """A type change that is not out yet has a version of its own; what is before it, too."""
    plain = TableSchema(TABLE, "people", at(10), registered_form(current_columns(PEOPLE)))
    ahead = replace(plain, schema_lsn=at(70))
    columns = tuple(published(mask={".*name": "x"}).values())

    versions = timeline(PEOPLE, columns, [at(60), at(70)], [plain, ahead], at(50))

    for block in (50, 59, 60, 69, 70, 80):
        in_force = version_at(versions, at(block))
        assert in_force.columns == columns, block


def test_another_salt_is_another_version():
    columns = [
        tuple(published(hash=[".*name"], salt=salt).values())
        for salt in ("one of them", "the other one")
    ]
    before = TableSchema(TABLE, "people", at(10), registered_form(columns[0]))

    versions = timeline(PEOPLE, columns[1], [], [before], at(50))

    assert [v.schema_lsn for v in versions] == [at(10), at(50)]


def captured(name: str) -> CapturedColumn:
    return next(c for c in PEOPLE.columns if c.name == name)


def test_masked_and_excluded_columns_are_not_read():
    found = rules(mask={".*name": "x"}, exclude=[".*born"], truncate={".*letter": 3})

    assert [c.name for c in PEOPLE.columns if found.reads(PEOPLE, c)] == [
        *("id", "letter", "scan", "score"),
    ]
    assert not found.changes(PEOPLE, captured("score"))
    assert found.changes(PEOPLE, captured("letter"))
