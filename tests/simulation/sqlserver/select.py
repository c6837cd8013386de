"""A small evaluator of the SELECTs over change tables and source tables.

It takes the grammar that the publisher writes, and nothing else: a text that it does not know ends
the simulation. Conditions have SQL's three values, comparisons leave NULL out, ORDER BY puts NULL
first.

https://learn.microsoft.com/sql/t-sql/queries/select-order-by-clause-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from tests.simulation.world import SimulationError

Values = Mapping[str, Any]
Bound = Mapping[str, Any]
Expression = Callable[[Values, Bound], Any]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<name>\[(?:[^\]]|\]\])*\])|(?P<text>N?'(?:[^']|'')*')|(?P<word>[@A-Za-z_][\w$@]*)"
    r"|(?P<number>\d+)|(?P<op><=|>=|<>|[=<>(),?*.]))"
)
_COMPARE: Final = {"=": eq, "<>": ne, ">": gt, ">=": ge, "<": lt, "<=": le}
_RANGES: Final = {"int": 31, "bigint": 63}


class SqlError(Exception):
    """An error of the server.

    Attributes:
        number: its number.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True, slots=True)
class Select:
    """A parsed SELECT.

    Attributes:
        top: number of rows at most; None for all.
        columns: what is selected.
        source: the table, as ``schema.table`` without brackets.
        where: the condition.
        order: names of columns.
        parameters: number of question marks.
    """

    top: Expression | None
    columns: tuple[Expression, ...]
    source: str
    where: Expression
    order: tuple[str, ...]
    parameters: int

    def run(
        self,
        rows: Iterable[Values],
        bound: Bound,
        shown: Callable[[Values], Values] = lambda row: row,
    ) -> list[tuple[Any, ...]]:
        """The result, in order.

        Args:
            shown: what may be read of a row's values, of which the condition knows all.
        """
        found = [row for row in rows if self.where(row, bound) is True]
        if self.order:
            found.sort(key=self._sort_key)
        if self.top is not None:
            found = found[: self.top({}, bound)]
        return [tuple(column(row, bound) for column in self.columns) for row in map(shown, found)]

    def order_key(self, row: Values) -> tuple[Any, ...]:
        """Where a row stands in the order."""
        return self._sort_key(row)

    def _sort_key(self, row: Values) -> tuple[Any, ...]:
        values = [_column(name)(row, {}) for name in self.order]
        return tuple((0, 0) if value is None else (1, value) for value in values)


@lru_cache(maxsize=4096)
def parse_select(text: str) -> Select:
    """Parse a SELECT of ours.

    Raises:
        SimulationError: it is of another form.
    """
    return _Parser(text).select()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                raise SimulationError(f"cannot read the statement at {text[place:]!r}: {text}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()
        self._place = 0
        self._parameters = 0

    # -- tokens ------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._tokens[place][1] if place < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if not token or (expected is not None and token.upper() != expected):
            raise SimulationError(
                f"unknown form of statement at {token!r}, expected {expected}: {self._text}"
            )
        self._place += 1
        return token

    def _accept(self, *words: str) -> bool:
        if all(self._peek(ahead).upper() == word for ahead, word in enumerate(words)):
            self._place += len(words)
            return True
        return False

    # -- statement ---------------------------------------------------------------------------------

    def select(self) -> Select:
        self._take("SELECT")
        top = None
        if self._accept("TOP"):
            self._take("(")
            top = self._value()
            self._take(")")
        columns = [self._value()]
        while self._accept(","):
            columns.append(self._value())
        self._take("FROM")
        source = self._name()
        while self._accept("."):
            source += "." + self._name()
        where: Expression = _always
        if self._accept("WHERE"):
            where = self._either()
        order: list[str] = []
        if self._accept("ORDER", "BY"):
            order.append(self._name())
            while self._accept(","):
                order.append(self._name())
        if self._peek():
            raise SimulationError(f"unknown end of statement at {self._peek()!r}: {self._text}")
        return Select(top, tuple(columns), source, where, tuple(order), self._parameters)

    def _name(self) -> str:
        token = self._take()
        return token[1:-1].replace("]]", "]") if token.startswith("[") else token

    # -- conditions --------------------------------------------------------------------------------

    def _either(self) -> Expression:
        sides = [self._both()]
        while self._accept("OR"):
            sides.append(self._both())
        return sides[0] if len(sides) == 1 else _joined(tuple(sides), decisive=True)

    def _both(self) -> Expression:
        sides = [self._condition()]
        while self._accept("AND"):
            sides.append(self._condition())
        return sides[0] if len(sides) == 1 else _joined(tuple(sides), decisive=False)

    def _condition(self) -> Expression:
        if self._accept("("):
            inner = self._either()
            self._take(")")
            return inner
        left = self._value()
        if self._accept("IS", "NULL"):
            return lambda row, bound: left(row, bound) is None
        if self._accept("IS", "NOT", "NULL"):
            return lambda row, bound: left(row, bound) is not None
        compare = _COMPARE.get(self._take())
        if compare is None:
            raise SimulationError(f"unknown comparison: {self._text}")
        return _compared(compare, left, self._value())

    # -- values ------------------------------------------------------------------------------------

    def _value(self) -> Expression:
        token = self._take()
        kind = self._tokens[self._place - 1][0]
        if token == "?":
            name = f"?{self._parameters}"
            self._parameters += 1
            return lambda row, bound: bound[name]
        if kind == "name":
            return _column(token[1:-1].replace("]]", "]"))
        if kind == "number":
            number = int(token)
            return lambda row, bound: number
        if token.startswith("@"):
            return lambda row, bound: bound[token]
        word = token.upper()
        if word == "NULL":
            return lambda row, bound: None
        if word in {"ISNULL", "CAST", "CONVERT"}:
            self._take("(")
            made = {"ISNULL": self._isnull, "CAST": self._cast, "CONVERT": self._convert}[word]()
            self._take(")")
            return made
        raise SimulationError(f"unknown expression {token!r}: {self._text}")

    def _isnull(self) -> Expression:
        value = self._value()
        self._take(",")
        other = self._value()
        return lambda row, bound: v if (v := value(row, bound)) is not None else other(row, bound)

    def _cast(self) -> Expression:
        value = self._value()
        if self._accept("COLLATE"):
            self._take()
        self._take("AS")
        return _converted(value, self._type())

    def _convert(self) -> Expression:
        wanted = self._type()
        self._take(",")
        value = self._value()
        if self._accept(","):
            self._take()
        return _converted(value, wanted)

    def _type(self) -> str:
        name = self._take().lower()
        if self._accept("("):
            name += f"({self._take().lower()})"
            self._take(")")
        return name


def _always(_row: Values, _bound: Bound) -> bool:
    return True


def _column(name: str) -> Expression:
    def value(row: Values, _bound: Bound) -> Any:
        try:
            return row[name]
        except KeyError:
            raise SqlError(207, f"Invalid column name '{name}'.") from None

    return value


def _compared(
    compare: Callable[[Any, Any], bool], left: Expression, right: Expression
) -> Expression:
    def condition(row: Values, bound: Bound) -> bool | None:
        a, b = left(row, bound), right(row, bound)
        return None if a is None or b is None else compare(a, b)

    return condition


def _joined(sides: Sequence[Expression], *, decisive: bool) -> Expression:
    """AND, which one false side decides, or OR, which one true side does; NULL is unknown."""

    def condition(row: Values, bound: Bound) -> bool | None:
        unknown = False
        for side in sides:
            value = side(row, bound)
            if value is decisive:
                return decisive
            unknown |= value is None
        return None if unknown else not decisive

    return condition


def _converted(value: Expression, wanted: str) -> Expression:
    def convert(row: Values, bound: Bound) -> Any:
        found = value(row, bound)
        if found is None:
            return None
        if wanted in _RANGES:
            number = int(found)
            if not -(1 << _RANGES[wanted]) <= number < 1 << _RANGES[wanted]:
                raise SqlError(
                    8115, f"Arithmetic overflow error converting expression to {wanted}."
                )
            return number
        if wanted.startswith(("nvarchar", "varchar", "nchar", "char")):
            length = wanted.partition("(")[2].rstrip(")")
            return str(found)[: int(length)] if length.isdigit() else str(found)
        if wanted.startswith(("binary", "varbinary")) and isinstance(found, bytes):
            return found
        raise SimulationError(f"no conversion to {wanted} in the model")

    return convert
