"""ISNULL, COALESCE, NULLIF, IIF, CHOOSE and their like."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.comparison import compared
from tailrace_emulator.tsql.compile.expressions import choose
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.tsql.functions.registry import builtin, special
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import Call
from tailrace_emulator.values.types import FLOAT, INT, MONEY, UNIQUEIDENTIFIER, pack_guid, varchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope


@builtin("ISNULL", 2)
def isnull(_: Expressions, arguments: list[Value]) -> Value:
    """The first argument's type decides."""
    first, second = arguments
    if first.is_null:
        return second
    replacement = converted(second, first.type, explicit=first.type.is_character)
    return Value(
        f"coalesce({first.sql}, {replacement.sql})",
        first.type,
        first.nullable and second.nullable,
    )


@builtin("COALESCE", 1, 255)
def coalesce(_: Expressions, arguments: list[Value]) -> Value:
    """The type of highest precedence decides."""
    known = [a for a in arguments if not a.is_null]
    if not known:
        raise messages.error(4127)
    target = types_of.unite(a.type for a in known)
    texts = [converted(a, target).sql for a in known]
    nullable = all(a.nullable for a in known)
    if len(texts) == 1:
        return Value(texts[0], target, nullable)
    return Value(f"coalesce({', '.join(texts)})", target, nullable)


@builtin("NULLIF", 2)
def nullif(_: Expressions, arguments: list[Value]) -> Value:
    """NULL when both are equal, else the first."""
    first, second = arguments
    return Value(
        f"(CASE WHEN {compared('=', first, second)} THEN NULL ELSE {first.sql} END)", first.type
    )


@special("IIF", 3)
def iif(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """CASE with one branch."""
    condition, yes, no = node.arguments
    return choose(
        [compiler.condition(condition, scope)],
        [compiler.value(yes, scope)],
        compiler.value(no, scope),
    )


@builtin("CHOOSE", 2, 255)
def choose_by_index(compiler: Expressions, arguments: list[Value]) -> Value:
    """The argument of that position."""
    index = compiler.as_int(arguments[0])
    conditions = [f"{index.sql} = {n}" for n in range(1, len(arguments))]
    return choose(conditions, arguments[1:], None)


def _extreme(name: str, function: str) -> None:
    """Registers GREATEST and LEAST, which ignore NULL."""

    @builtin(name, 1, 254)
    def build(_: Expressions, arguments: list[Value]) -> Value:
        known = [a for a in arguments if not a.is_null]
        target = types_of.unite(a.type for a in known)
        texts = [replace(converted(a, target), type=target).collated for a in known]
        if len(texts) == 1:
            return replace(known[0], type=target)
        rows = " UNION ALL ".join(f"SELECT {text} AS x" for text in texts)
        return Value(f"(SELECT {function}(x) FROM ({rows}))", target)


_extreme("GREATEST", "max")
_extreme("LEAST", "min")


@builtin("NEWID", 0)
def newid(_: Expressions, __: list[Value]) -> Value:
    """A random uniqueidentifier for each row."""
    return Value("t_newid()", UNIQUEIDENTIFIER, nullable=False)


@builtin("NEWSEQUENTIALID", 0)
def newsequentialid(_: Expressions, __: list[Value]) -> Value:
    """A uniqueidentifier greater than the one before (time-based)."""
    return Value("t_newsequentialid()", UNIQUEIDENTIFIER, nullable=False)


@sqlite_function("t_newid", 0, deterministic=False)
def _newid() -> bytes:
    return pack_guid(uuid.uuid4())


_SEQUENCE: Final = {"last": 0}


@sqlite_function("t_newsequentialid", 0, deterministic=False)
def _newsequentialid() -> bytes:
    number = uuid.uuid1().time
    _SEQUENCE["last"] = max(_SEQUENCE["last"] + 1, number)
    # The storage value is in comparison order, so a growing prefix is a growing value.
    return _SEQUENCE["last"].to_bytes(10, "big") + b"\x11\xee\x80\x00\x00\x00"


@sqlite_function("t_parsed", 3, takes_null=True)
def _parsed(value: Any, text: str | None, type_name: str) -> Any:
    """The result of PARSE: text that does not parse is an error."""
    if value is None and text is not None:
        raise messages.error(9819, text, type_name)
    return value


@builtin("ISNUMERIC", 1)
def isnumeric(compiler: Expressions, arguments: list[Value]) -> Value:
    """1 when the text converts to some number."""
    return Value(f"t_isnumeric({compiler.as_text(arguments[0]).sql})", INT)


@sqlite_function("t_isnumeric", 1, takes_null=True)
def _isnumeric(text: Any) -> int:
    if text is None or not text.strip():
        return 0
    if re.fullmatch(r"\s*[$£€¥+\-.,]\s*", text):
        return 1
    for target in (FLOAT, MONEY):
        try:
            convert(text, varchar(8000), target)
        except SqlError:
            continue
        return 1
    return 0
