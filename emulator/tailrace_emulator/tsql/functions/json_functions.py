"""JSON_VALUE, JSON_QUERY, JSON_MODIFY, ISJSON, JSON_PATH_EXISTS.

https://learn.microsoft.com/sql/t-sql/functions/json-functions-transact-sql
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.functions.json_paths import JsonPath, find, missing, parse_path
from tailrace_emulator.tsql.functions.json_text import (
    JsonKind,
    JsonNode,
    escaped,
    parse,
    scalar_text,
)
from tailrace_emulator.tsql.functions.registry import builtin, special
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName
from tailrace_emulator.values.types import INT, MAX, nvarchar
from tailrace_emulator.wire.half_pairs import units

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope

_VALUE_UNITS_MAX: Final = 4000
_KINDS: Final = {
    "VALUE": frozenset(JsonKind),
    "SCALAR": frozenset({JsonKind.STRING, JsonKind.NUMBER, JsonKind.BOOLEAN, JsonKind.NULL}),
    "ARRAY": frozenset({JsonKind.ARRAY}),
    "OBJECT": frozenset({JsonKind.OBJECT}),
}


@builtin("JSON_VALUE", 2)
def json_value(compiler: Expressions, arguments: list[Value]) -> Value:
    """A scalar as nvarchar(4000)."""
    text, path = (compiler.as_text(a) for a in arguments)
    return Value(f"t_json_value({text.sql}, {path.sql})", nvarchar(_VALUE_UNITS_MAX))


@sqlite_function("t_json_value", 2)
def _json_value(text: str, path_text: str) -> str | None:
    path = parse_path(path_text)
    node = find(parse(text), path)
    if node is None:
        if path.strict:
            raise missing()
        return None
    if node.is_container:
        if path.strict:
            raise messages.error(13623)
        return None
    value = scalar_text(text, node)
    if value is not None and units(value) > _VALUE_UNITS_MAX:
        if path.strict:
            raise messages.error(13625)
        return None
    return value


@builtin("JSON_QUERY", 1, 2)
def json_query(compiler: Expressions, arguments: list[Value]) -> Value:
    """An object or array, as it is written."""
    texts = [compiler.as_text(a).sql for a in arguments]
    path = texts[1] if len(texts) > 1 else "'$'"
    return Value(f"t_json_query({texts[0]}, {path})", nvarchar(MAX), form="json")


@sqlite_function("t_json_query", 2)
def _json_query(text: str, path_text: str) -> str | None:
    path = parse_path(path_text)
    node = find(parse(text), path)
    if node is not None and node.is_container:
        return text[node.start : node.end]
    if path.strict:
        if node is None:
            raise missing()
        raise messages.error(13624)
    return None


def _no_container() -> SqlError:
    """A strict path that leads to a scalar."""
    return messages.error(13624)


@builtin("JSON_PATH_EXISTS", 2)
def json_path_exists(compiler: Expressions, arguments: list[Value]) -> Value:
    """1 when the path leads somewhere."""
    text, path = (compiler.as_text(a) for a in arguments)
    return Value(f"t_json_path_exists({text.sql}, {path.sql})", INT)


@sqlite_function("t_json_path_exists", 2)
def _json_path_exists(text: str, path: str) -> int:
    try:
        return int(find(parse(text), parse_path(path)) is not None)
    except SqlError as error:
        if error.number in {13609, 13610}:
            return 0
        raise


@special("ISJSON", 1, 2)
def isjson(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """ISJSON(text [, VALUE | SCALAR | ARRAY | OBJECT])."""
    kind = ""
    if len(node.arguments) > 1:
        word = node.arguments[1]
        kind = word.parts[-1].upper() if isinstance(word, ColumnName) else ""
        if kind not in _KINDS:
            raise messages.syntax(kind or ")", node.line)
    value = compiler.value(node.arguments[0], scope)
    if value.is_null:
        return Value("NULL", INT)
    if family(value.type) is not Family.TEXT:
        raise messages.error(8116, value.type.name, 1, "isjson")
    return Value(f"t_isjson({value.sql}, '{kind}')", INT, value.nullable)


@sqlite_function("t_isjson", 2)
def _isjson(text: str, kind: str) -> int:
    try:
        node = parse(text)
    except SqlError:
        return 0
    if not kind:
        return int(node.is_container)
    return int(node.kind in _KINDS[kind])


@special("JSON_MODIFY", 3)
def json_modify(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """JSON_MODIFY(text, path, value): the text with one value changed, added or removed."""
    text, path = (compiler.as_text(compiler.value(a, scope)) for a in node.arguments[:2])
    written = json_text_of(compiler, compiler.value(node.arguments[2], scope))
    return Value(f"t_json_modify({text.sql}, {path.sql}, {written})", nvarchar(MAX), form="json")


def json_text_of(compiler: Expressions, value: Value) -> str:
    """SQLite text of a value written as JSON; NULL stays NULL."""
    if value.is_null:
        return "NULL"
    kind = family(value.type)
    if value.type.name == "bit":
        return f"(CASE {value.sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)"
    if kind in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        return compiler.as_text(value).sql
    text = compiler.as_text(value).sql
    return text if value.form == "json" else f"t_json_quoted({text})"


@sqlite_function("t_json_quoted", 1)
def _json_quoted(text: str) -> str:
    return f'"{escaped(text)}"'


@sqlite_function("t_json_modify", 3, takes_null=True)
def _json_modify(text: str | None, path_text: str | None, value: str | None) -> str | None:
    if text is None or path_text is None:
        return None
    path = parse_path(path_text)
    root = parse(text)
    node = find(root, path)
    if path.append:
        return _appended(text, root, path, node, value)
    if not path.steps:
        raise messages.error(13619)
    if node is not None:
        if value is None and not path.strict:
            return _removed(text, find(root, replace(path, steps=path.steps[:-1])), node)
        return text[: node.start] + (value or "null") + text[node.end :]
    if path.strict:
        raise missing()
    if value is None:
        return text
    parent = find(root, replace(path, steps=path.steps[:-1]))
    step = path.steps[-1]
    if parent is None:
        return text
    if isinstance(step, str) and parent.kind is JsonKind.OBJECT:
        return _inserted(text, parent, f'"{escaped(step)}":{value}', filled=bool(parent.members))
    if isinstance(step, int) and parent.kind is JsonKind.ARRAY:
        return _inserted(text, parent, value, filled=bool(parent.items))
    return text


def _inserted(text: str, parent: JsonNode, piece: str, *, filled: bool) -> str:
    """A container with one more element at its end."""
    inner = text[parent.start : parent.end - 1].rstrip() if filled else text[parent.start]
    comma = "," if filled else ""
    return text[: parent.start] + inner + comma + piece + text[parent.end - 1 :]


def _appended(
    text: str, root: JsonNode, path: JsonPath, node: JsonNode | None, value: str | None
) -> str:
    """``append $.path``: one more element of an array, which is created when it is not there."""
    if node is not None and node.kind is JsonKind.ARRAY:
        return _inserted(text, node, value or "null", filled=bool(node.items))
    if path.strict:
        raise (missing() if node is None else messages.error(13624))
    if node is not None or not path.steps or not isinstance(path.steps[-1], str):
        return text
    parent = find(root, replace(path, steps=path.steps[:-1]))
    if parent is None or parent.kind is not JsonKind.OBJECT:
        return text
    piece = f'"{escaped(path.steps[-1])}":[{value or "null"}]'
    return _inserted(text, parent, piece, filled=bool(parent.members))


def _removed(text: str, parent: JsonNode | None, node: JsonNode) -> str:
    """The text without a member; an element of an array becomes null."""
    if parent is None or parent.kind is JsonKind.ARRAY:
        return text[: node.start] + "null" + text[node.end :]
    starts = [at for _, at, _ in parent.members]
    position = next(n for n, (_, _, member) in enumerate(parent.members) if member is node)
    if position + 1 < len(starts):
        return text[: starts[position]] + text[starts[position + 1] :]
    if position:
        return text[: parent.members[position - 1][2].end] + text[node.end :]
    return text[: starts[0]].rstrip() + text[node.end :].lstrip()


@builtin("STRING_ESCAPE", 2)
def string_escape(compiler: Expressions, arguments: list[Value]) -> Value:
    """A text as it stands inside a JSON string."""
    text, kind = (compiler.as_text(argument) for argument in arguments)
    return Value(f"t_string_escape({text.sql}, {kind.sql})", nvarchar(MAX))


@sqlite_function("t_string_escape", 2)
def _string_escape(text: str, kind: str) -> str:
    if kind.casefold() != "json":
        raise not_supported(f"STRING_ESCAPE of type '{kind}'")
    return escaped(text)
