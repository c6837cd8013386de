"""Conversions as text, so that compiled text can carry them.

Compiled text calls ``cv(x, '<rule>')``, and the rule is all that is needed to build the conversion
again. Nothing is registered, so nothing has to be forgotten. A text that was compiled once stays
true in every session, however long it is kept.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tailrace_emulator.tsql.conversions import Conversion, assigner, converter, quiet_converter
from tailrace_emulator.values.types import SqlType

_CACHED: Final = 2048


class Rule(NamedTuple):
    """What makes a conversion.

    Attributes:
        source: type of the value.
        quiet: NULL instead of a failed conversion (TRY_CAST).
        column: where it is stored: ``database.schema.table`` and the column's name.
        truncates: text that does not fit the column is cut.
    """

    source: SqlType
    target: SqlType
    style: int | None = None
    quiet: bool = False
    column: tuple[str, str] | None = None
    truncates: bool = False

    def conversion(self) -> Conversion | None:
        """The conversion; None when the value stays as it is.

        Raises:
            SqlError: 206, 257, 281 or 529 when there is no such conversion.
        """
        if self.column is not None:
            return assigner(self.source, self.target, *self.column, truncates=self.truncates)
        if self.quiet:
            return quiet_converter(self.source, self.target, self.style)
        return converter(self.source, self.target, self.style)

    def text(self) -> str:
        """The rule, as :func:`conversion_of` reads it."""
        return json.dumps(
            [
                _of_type(self.source),
                _of_type(self.target),
                self.style,
                int(self.quiet),
                self.column,
                int(self.truncates),
            ],
            separators=(",", ":"),
        )


@lru_cache(maxsize=_CACHED)
def conversion_of(text: str) -> Conversion:
    """The conversion of a rule that compiled text carries."""
    source, target, style, quiet, column, truncates = json.loads(text)
    place = None if column is None else (column[0], column[1])
    rule = Rule(SqlType(*source), SqlType(*target), style, bool(quiet), place, bool(truncates))
    return rule.conversion() or _unchanged


def _of_type(sql_type: SqlType) -> list[Any]:
    parts = sql_type.name, sql_type.length, sql_type.precision, sql_type.scale, sql_type.collation
    return list(parts)


def _unchanged(value: Any) -> Any:
    return value
