"""Methods of xml: value(), query(), exist() and nodes().

https://learn.microsoft.com/sql/t-sql/xml/xml-data-type-methods
"""

from __future__ import annotations

import json
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, not_supported
from tailrace_emulator.tsql.compile.values import Value, converted, literal_sql
from tailrace_emulator.tsql.functions.operators import pack
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.functions.xml_paths import Node, document, evaluate, parse_path
from tailrace_emulator.tsql.syntax.nodes import Expression, Literal
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.values.types import BIT, MAX, SqlType, nvarchar

NODE: Final = "node"
"""Form of a value that nodes() yields: the node itself is where a path begins."""


def xml_method(value: Value, method: str, arguments: tuple[Expression, ...]) -> Value:
    """A method of an xml value.

    Raises:
        SqlError: 8172 for a path that is no constant, 2389 for one that may lead to several nodes,
            50900 for more of XQuery than simple paths.
    """
    if value.type.name != "xml":
        raise messages.error(258, value.type.name, aborts=Aborts.SCOPE)
    path = _constant(arguments, 0, method)
    inside = int(value.form == NODE)
    arguments_sql = f"{value.sql}, {literal_sql(path)}, {inside}"
    if method == "value":
        if not parse_path(path).is_single:
            raise messages.error(2389, "value()", "xdt:untypedAtomic *", aborts=Aborts.SCOPE)
        target = TokenCursor(_constant(arguments, 1, method)).data_type(default_length=30)
        found = Value(f"t_xml_value({arguments_sql})", nvarchar(MAX))
        return converted(found, target, explicit=True)
    parse_path(path)
    if method == "exist":
        return Value(f"t_xml_exist({arguments_sql})", BIT)
    if method == "query":
        return Value(f"t_xml_query({arguments_sql})", SqlType("xml"))
    raise not_supported(f"the xml method {method}() here")


def _constant(arguments: tuple[Expression, ...], position: int, method: str) -> str:
    """An argument that must be a string constant."""
    argument = arguments[position] if position < len(arguments) else None
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise messages.error(8172, position + 1, method)
    return argument.value


def nodes_rows(value: Value, arguments: tuple[Expression, ...]) -> str:
    """SQLite text of the rows of nodes()."""
    path = _constant(arguments, 0, "nodes")
    parse_path(path)
    return f"t_xml_nodes({value.sql}, {literal_sql(path)}, {int(value.form == NODE)})"


def _context(text: str, inside: int) -> Node:
    """Where a path begins: the document, or the one node that the text is."""
    root = document(text)
    if not inside:
        return root
    return next(iter(root.children()), root)


@sqlite_function("t_xml_value", 3)
def _value(text: str, path: str, inside: int) -> str | None:
    found = evaluate(_context(text, inside), parse_path(path))
    if len(found) > 1:
        raise messages.error(2389, "value()", "xdt:untypedAtomic *", aborts=Aborts.STATEMENT)
    return found[0].string() if found else None


@sqlite_function("t_xml_exist", 3)
def _exist(text: str, path: str, inside: int) -> int:
    return int(bool(evaluate(_context(text, inside), parse_path(path))))


@sqlite_function("t_xml_query", 3)
def _query(text: str, path: str, inside: int) -> str:
    return "".join(n.written() for n in evaluate(_context(text, inside), parse_path(path)))


@sqlite_function("t_xml_nodes", 3)
def _nodes(text: str, path: str, inside: int) -> str:
    found = evaluate(_context(text, inside), parse_path(path))
    return json.dumps([[pack(node.written())] for node in found])
