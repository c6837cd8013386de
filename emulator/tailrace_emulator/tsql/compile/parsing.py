"""PARSE and TRY_PARSE.

https://learn.microsoft.com/sql/t-sql/functions/parse-transact-sql
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.syntax.nodes import Cast

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

_ENGLISH: Final = frozenset({"en-us", "en"})


def parse_text(compiler: Expressions, node: Cast, value: Value, culture: Value | None) -> Value:
    """As TRY_CAST, with thousands separators in numbers; PARSE turns NULL into an error.

    Args:
        culture: of USING; English (US) without it.

    Raises:
        SqlError: 50900 for another culture.
    """
    if culture is not None:
        name = culture.constant.value if culture.constant is not None else None
        if not isinstance(name, str) or name.casefold() not in _ENGLISH:
            raise not_supported(f"{node.function} ... USING a culture other than 'en-US'")
    elif compiler.compilation.semantics.language != "us_english":
        raise not_supported(f"{node.function} without USING in a language other than us_english")
    source = text = compiler.as_text(value)
    if family(node.type) in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        source = replace(text, sql=f"replace({text.sql}, ',', '')", constant=None)
    parsed = compiler.cast(source, node.type, quiet=True)
    if node.function == "PARSE":
        return replace(parsed, sql=f"t_parsed({parsed.sql}, {text.sql}, '{node.type.name}')")
    return parsed
