"""System views declare columns with defaults; their rows are written by column name."""

import ast
from pathlib import Path

import pytest

from tailrace_emulator.catalog import registry
from tailrace_emulator.catalog.registry import Columns

CATALOG = Path(registry.__file__).parent
POSITIONS_MAX = 5
"""Values that a row may have by position: one sees at a glance what they are."""

SERVERS = Columns(
    """server_id int!, name sysname!, product sysname! = 'SQL Server', retries int! = -1,
 catalog sysname, class tinyint = 4"""
)


def test_a_row_has_what_is_said_and_otherwise_what_is_declared():
    row = SERVERS.row(name="one", server_id=7, retries=0)
    assert row == (7, "one", "SQL Server", 0, None, 4)


def test_columns_are_read_with_type_and_nullability():
    shown = [(c.name, c.type.name, c.nullable) for c in SERVERS.meta]
    assert shown[0] == ("server_id", "int", False)
    assert shown[2:4] == [("product", "nvarchar", False), ("retries", "int", False)]
    assert shown[4:] == [("catalog", "nvarchar", True), ("class", "tinyint", True)]


def test_a_column_that_is_a_word_of_python_has_an_underscore():
    assert SERVERS.row(server_id=1, name="x", class_=9)[-1] == 9


@pytest.mark.parametrize("values", [{"server_id": 1}, {"server_id": 1, "name": "x", "nam": "y"}])
def test_a_missing_value_and_an_unknown_name_are_errors(values):
    with pytest.raises(TypeError, match=r"name|nam"):
        SERVERS.row(**values)


def test_more_columns_follow_a_row_of_the_first_ones():
    more = SERVERS.extended("is_linked bit!, provider sysname = 'SQLNCLI'")
    row = more.row(SERVERS.row(server_id=1, name="x"), is_linked=1)
    assert row == (1, "x", "SQL Server", -1, None, 4, 1, "SQLNCLI")
    assert [c.name for c in more.meta][-2:] == ["is_linked", "provider"]
    with pytest.raises(TypeError, match="is_linked"):
        more.row(SERVERS.row(server_id=1, name="x"))


def _yielded(function: ast.FunctionDef) -> list[ast.Tuple]:
    """The rows that a view writes by position."""
    yields = [node.value for node in ast.walk(function) if isinstance(node, ast.Yield)]
    return [value for value in yields if isinstance(value, ast.Tuple)]


def test_long_rows_are_written_by_name():
    by_position = [
        f"{path.name}:{row.lineno}"
        for path in sorted(CATALOG.glob("*.py"))
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        if any(ast.unparse(d).startswith("view(") for d in function.decorator_list)
        for row in _yielded(function)
        if len(row.elts) > POSITIONS_MAX or any(isinstance(e, ast.Starred) for e in row.elts)
    ]
    assert by_position == []
