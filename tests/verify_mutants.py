"""Wrong rules of the canonical text: the values of each type must show every one of them.

A mutant replaces a part of what one side writes for some types. Both sides have tests that compare
the texts of ``verify_values`` with what is expected. These show that no such mistake would pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pytest

from tailrace.verify import canonical_text
from tailrace.verify.canonical_text import canonical_column
from tailrace_schemas.events.column_types import SCALARS, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tests.verify_values import VALUES

_INTEGERS: Final = "tinyint smallint int bigint"
_NUMBERS: Final = f"{_INTEGERS} decimal numeric"
_MONEY: Final = "money smallmoney"
_TEXTS: Final = "char varchar text nchar nvarchar ntext xml"
_TEXT: Final = "CONVERT(nvarchar(max), {0})"
_DIGITS: Final = "CONVERT(nvarchar(max), CAST({0} AS varbinary(max)), 2)"
_BYTES: Final = "binary varbinary image hierarchyid geometry geography"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake in the rule of some types.

    Attributes:
        types: names, each of which must show it.
        right: a part of the rule; ``{0}`` is the value.
        wrong: what is in its place.
    """

    types: str
    right: str
    wrong: str


SOURCE: Final = (
    Mutant("bit", "{0}", "NULLIF({0}, 0)"),
    Mutant(_NUMBERS, "{0}", "{0} % 7"),
    Mutant("decimal", "{0}", "CAST({0} AS decimal(38, 9))"),
    Mutant("numeric", "{0}", "CAST({0} AS numeric(38, 1))"),
    Mutant("bigint decimal", "{0}", "CAST({0} AS float)"),
    Mutant(_MONEY, ", 2)", ", 0)"),
    Mutant("float", "{0}", "CAST(CONVERT(nvarchar(40), {0}, 1) AS float)"),
    Mutant("real", "{0}", "CAST(CONVERT(nvarchar(40), {0}) AS real)"),
    Mutant("date", "23", "101"),
    Mutant("datetime", "121) + N'000'", "120) + N'.000000'"),
    Mutant("smalldatetime", "nvarchar(19)", "nvarchar(16)"),
    Mutant("datetime2", "26)", "27)"),
    Mutant("datetime2", "26)", "21)"),
    Mutant("time", "* 1000000", "* 1000"),
    Mutant("datetimeoffset", "28, 1", "28, 0"),
    Mutant("datetimeoffset", "N'T'", "N' '"),
    Mutant("datetimeoffset", "{0}", "SWITCHOFFSET({0}, '-11:00')"),
    Mutant("uniqueidentifier", "LOWER", "UPPER"),
    Mutant("char nchar varchar nvarchar", "{0}", "RTRIM({0})"),
    Mutant("varchar", "{0}", "LTRIM({0})"),
    Mutant("varchar nvarchar", "(max)", "(4000)"),
    Mutant("nchar nvarchar ntext", "nvarchar(max)", "varchar(max)"),
    Mutant(_TEXTS, _TEXT, f"UPPER({_TEXT})"),
    Mutant("varchar", "{0}", "NULLIF({0}, '')"),
    Mutant(_BYTES, ", 2)", ", 1)"),
    Mutant("binary varbinary", _DIGITS, f"LOWER({_DIGITS})"),
    Mutant("varbinary", "AS varbinary(max)", "AS varbinary(8000)"),
)
LAKE: Final = (
    Mutant("bit", "CAST({0} AS INT)", "{0}"),
    Mutant(f"{_NUMBERS} {_MONEY}", "{0}", "CAST({0} AS DOUBLE)"),
    Mutant("decimal", "{0}", "CAST({0} AS DECIMAL(38, 9))"),
    Mutant(_MONEY, "{0}", "CAST({0} AS DECIMAL(38, 2))"),
    Mutant("float", "{0}", "CAST(CAST({0} AS FLOAT) AS DOUBLE)"),
    Mutant("real", "{0}", "CAST(round({0}, 3) AS FLOAT)"),
    Mutant("date", "CAST({0} AS STRING)", "date_format({0}, 'yyyy-M-d')"),
    Mutant("datetime datetime2", ".SSSSSS", ".SSS"),
    Mutant("datetime smalldatetime datetime2", "HH", "hh"),
    Mutant("time", "{0}", "{0} DIV 1000"),
    Mutant("datetimeoffset", "{0}", "replace({0}, 'T', ' ')"),
    Mutant("uniqueidentifier", "{0}", "upper({0})"),
    Mutant("char nchar varchar nvarchar", "{0}", "rtrim({0})"),
    Mutant("varchar nvarchar", "{0}", "substr({0}, 1, 4000)"),
    Mutant("varchar", "{0}", "nullif({0}, '')"),
    Mutant(_TEXTS, "{0}", "upper({0})"),
    Mutant(_BYTES, "hex({0})", "concat('0x', hex({0}))"),
    Mutant("binary varbinary", "hex({0})", "lower(hex({0}))"),
)
WITHOUT_VALUES: Final = {"sysname", "json", "timestamp"}
"""Types that have the rule of another one: of nvarchar, nvarchar(max) and binary."""
SIDES: Final[Mapping[str, tuple[Mutant, ...]]] = {"source": SOURCE, "lake": LAKE}


def missed(
    side: Literal["source", "lake"],
    texts_of: Callable[[Sequence[str]], list[tuple[str | None, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[str, Mutant]]:
    """The types and mutants whose texts are right for every value.

    Args:
        texts_of: what the side has of some expressions, in the order of the values.
    """
    made = {
        (name, mutant): _mutated(side, name, mutant, monkeypatch)
        for mutant in SIDES[side]
        for name in mutant.types.split()
    }
    assert {name for name, _ in made} == {*SCALARS, "decimal", "numeric", "float"} - WITHOUT_VALUES
    columns = list(zip(*texts_of([text for texts in made.values() for text in texts]), strict=True))
    found = []
    for (name, mutant), texts in made.items():
        of_it, columns = columns[: len(texts)], columns[len(texts) :]
        if of_it == _expected(name, len(of_it[0])):
            found.append((name, mutant))
    return found


def _mutated(
    side: Literal["source", "lake"], name: str, mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The expressions of the columns of one type by a wrong rule; the names are declarations."""
    forms = canonical_text._FORMS
    rules = dict(zip(SIDES, forms.get(name, canonical_text._NUMBER), strict=True))
    assert mutant.right in rules[side], mutant
    rules[side] = rules[side].replace(mutant.right, mutant.wrong)
    with monkeypatch.context() as patched:
        patched.setitem(forms, name, (rules["source"], rules["lake"]))
        columns = [canonical_column(SchemaColumn(1, t, d), d) for t, d in _declared(name).items()]
    return [getattr(column, side) for column in columns]


def _declared(name: str) -> dict[str, ColumnType]:
    """The declarations of ``verify_values`` of one type."""
    types = {text: ColumnType.parse(text) for text in VALUES}
    return {text: kind for text, kind in types.items() if _rule_of(kind) == name}


def _expected(name: str, rows: int) -> list[tuple[str | None, ...]]:
    """The right texts of their columns, column after column."""
    values = [VALUES[text] for text in _declared(name)]
    return [tuple(of[n].text if n < len(of) else None for n in range(rows)) for of in values]


def _rule_of(kind: ColumnType) -> str:
    return "real" if kind.name == "float" and 0 < kind.precision <= 24 else kind.name
