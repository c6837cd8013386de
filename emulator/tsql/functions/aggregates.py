"""Aggregate and window functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from emulator.errors import not_supported
from emulator.tsql import messages, types_of
from emulator.tsql.certain import known
from emulator.tsql.conversions.families import Family, family, is_national
from emulator.tsql.conversions.numbers import rescale
from emulator.tsql.functions.operators import decimal_of, scaled_of
from emulator.tsql.functions.registry import AGGREGATES
from emulator.tsql.nodes import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Collate,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Logical,
    Not,
    Star,
    Unary,
)
from emulator.tsql.values import Value, converted
from emulator.types import BIGINT, FLOAT, INT, MAX, SqlType, nvarchar, varchar

if TYPE_CHECKING:
    from emulator.tsql.expressions import ExpressionCompiler
    from emulator.tsql.scope import Scope

AGGREGATE_NAMES: Final = frozenset(
    {"COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STDEV", "STDEVP", "VAR", "VARP",
     "STRING_AGG"}
)  # fmt: skip
_RANKING: Final = {"ROW_NUMBER": "row_number", "RANK": "rank", "DENSE_RANK": "dense_rank"}
WINDOW_NAMES: Final = AGGREGATE_NAMES | frozenset(
    {*_RANKING, "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "PERCENT_RANK", "CUME_DIST"}
)


def contains_aggregate(node: Expression) -> bool:
    """Whether an aggregate of the same query stands in the expression (not in a subquery)."""
    if isinstance(node, Call):
        if node.over is None and len(node.name) == 1 and node.name[0].upper() in AGGREGATE_NAMES:
            return True
        return any(contains_aggregate(a) for a in node.arguments) or (
            node.over is not None
            and any(
                contains_aggregate(e)
                for e in (*node.over.partition, *(o.expression for o in node.over.order))
            )
        )
    return any(contains_aggregate(child) for child in _children(node))


def _children(node: Expression) -> list[Expression]:
    """Direct operands of an expression."""
    if isinstance(node, Binary | Comparison):
        return [node.left, node.right]
    if isinstance(node, Logical):
        return list(node.operands)
    if isinstance(node, Unary | Cast | Collate | Not | IsNull):
        return [node.operand]
    if isinstance(node, Between):
        return [node.operand, node.low, node.high]
    if isinstance(node, InList):
        return [node.operand, *node.items]
    if isinstance(node, Like):
        return [node.operand, node.pattern]
    if isinstance(node, Case):
        children = [part for branch in node.branches for part in branch]
        return children + [c for c in (node.operand, node.otherwise) if c is not None]
    return []


def aggregate(compiler: ExpressionCompiler, node: Call, scope: Scope) -> Value:
    """An aggregate, or any function with OVER."""
    name = node.name[0].upper()
    window = "" if node.over is None else f" OVER ({_window(compiler, node, scope)})"
    if name in _RANKING:
        return Value(f"{_RANKING[name]}(){window}", BIGINT, nullable=False)
    inner = scope if node.over is not None else replace(scope, inside_aggregate=True)
    if name == "NTILE":
        buckets = compiler.as_int(compiler.value(node.arguments[0], inner))
        return Value(f"ntile({buckets.sql}){window}", BIGINT)
    if name in {"PERCENT_RANK", "CUME_DIST"}:
        return Value(f"{name.lower()}(){window}", FLOAT)
    if name in {"LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"}:
        return _offset(compiler, node, inner, window)
    if name in {"COUNT", "COUNT_BIG"}:
        return _count(compiler, node, inner, window)
    if name == "STRING_AGG":
        return _string_agg(compiler, node, inner, window)
    if len(node.arguments) != 1:
        raise messages.argument_count(name, 1)
    argument = compiler.value(node.arguments[0], inner)
    if argument.is_null:
        raise messages.compile_error(
            8117, f"Operand data type NULL is invalid for {name.lower()} operator."
        )
    distinct = "DISTINCT " if node.distinct else ""
    if name in {"MIN", "MAX"}:
        if argument.type.name == "bit":
            raise messages.invalid_operator_type("bit", name.lower())
        text = f"{name.lower()}({argument.collated}){window}"
        return Value(text, argument.type)
    if name in {"SUM", "AVG"}:
        return _sum_or_average(name, argument, distinct, window)
    value = converted(argument, FLOAT)
    return Value(f"t_{name.lower()}({distinct}{value.sql}){window}", FLOAT)


def _window(compiler: ExpressionCompiler, node: Call, scope: Scope) -> str:
    """The inside of OVER."""
    over = known(node.over, "OVER clause")
    parts = []
    if over.partition:
        terms = [compiler.value(e, scope).collated for e in over.partition]
        parts.append(f"PARTITION BY {', '.join(terms)}")
    if over.order:
        terms = []
        for item in over.order:
            value = compiler.value(item.expression, scope)
            term = "(SELECT NULL)" if value.constant is not None else value.collated
            terms.append(f"{term}{' DESC' if item.descending else ''}")
        parts.append(f"ORDER BY {', '.join(terms)}")
    elif node.name[0].upper() in {*_RANKING, "NTILE", "LAG", "LEAD"}:
        raise messages.compile_error(
            4112,
            f"The function '{node.name[0]}' must have an OVER clause with ORDER BY.",
            severity=15,
        )
    if over.frame:
        parts.append(over.frame)
    return " ".join(parts)


def _offset(compiler: ExpressionCompiler, node: Call, scope: Scope, window: str) -> Value:
    """LAG, LEAD, FIRST_VALUE, LAST_VALUE."""
    value = compiler.value(node.arguments[0], scope)
    texts = [value.sql]
    if len(node.arguments) > 1:
        texts.append(compiler.as_int(compiler.value(node.arguments[1], scope)).sql)
    if len(node.arguments) > 2:
        texts.append(converted(compiler.value(node.arguments[2], scope), value.type).sql)
    return Value(f"{node.name[0].lower()}({', '.join(texts)}){window}", value.type)


def _count(compiler: ExpressionCompiler, node: Call, scope: Scope, window: str) -> Value:
    """COUNT and COUNT_BIG."""
    result = INT if node.name[0].upper() == "COUNT" else BIGINT
    if len(node.arguments) != 1:
        raise messages.argument_count(node.name[0], 1)
    if isinstance(node.arguments[0], Star):
        return Value(f"count(*){window}", result, nullable=False)
    value = compiler.value(node.arguments[0], scope)
    if node.distinct:
        return Value(f"count(DISTINCT {value.collated}){window}", result, nullable=False)
    return Value(f"count({value.sql}){window}", result, nullable=False)


def _sum_or_average(name: str, argument: Value, distinct: str, window: str) -> Value:
    """SUM and AVG in SQL Server's result types."""
    result = (
        types_of.sum_type(argument.type) if name == "SUM" else types_of.average_type(argument.type)
    )
    kind = family(argument.type)
    if kind is Family.INTEGER:
        total = f"sum({distinct}{argument.sql}){window}"
        if name == "SUM":
            return Value(f"t_{result.name}({total})", result)
        count = f"count({distinct}{argument.sql}){window}"
        text = f"(CASE {count} WHEN 0 THEN NULL ELSE t_{result.name}({total}) / {count} END)"
        return Value(text, result)
    if kind is Family.FLOAT:
        function = "sum" if name == "SUM" else "avg"
        return Value(f"t_float({function}({distinct}{argument.sql}){window})", result)
    function = "t_decimal_sum" if name == "SUM" else "t_decimal_average"
    money = int(result.name == "money")
    text = f"{function}({distinct}{argument.sql}, {argument.type.scale}, {result.scale}){window}"
    if distinct:
        # SQLite takes DISTINCT in aggregates of one argument only.
        raise not_supported(f"{name}(DISTINCT decimal)")
    return Value(f"t_money({text}, 19)" if money else text, result)


def _string_agg(compiler: ExpressionCompiler, node: Call, scope: Scope, window: str) -> Value:
    """STRING_AGG(text, separator) WITHIN GROUP (ORDER BY ..)."""
    if len(node.arguments) != 2:
        raise messages.argument_count("string_agg", 2)
    text, separator = (compiler.as_text(compiler.value(a, scope)) for a in node.arguments)
    order = ""
    if node.within_group:
        terms = [
            compiler.value(o.expression, scope).collated + (" DESC" if o.descending else "")
            for o in node.within_group
        ]
        order = f" ORDER BY {', '.join(terms)}"
    national = is_national(text.type)
    is_max = text.type.length == MAX
    result = nvarchar(MAX if is_max else 4000) if national else varchar(MAX if is_max else 8000)
    return Value(f"group_concat({text.sql}, {separator.sql}{order}){window}", result)


# What SQLite calls ------------------------------------------------------------------------------


class DecimalSum:
    """SUM of exact decimals as decimal(38, s)."""

    def __init__(self) -> None:
        self.total = 0
        self.count = 0
        self.scales = (0, 0)

    def step(self, value: int | bytes | None, source: int, target: int) -> None:
        """A row enters."""
        if value is not None:
            self.total += scaled_of(value)
            self.count += 1
        self.scales = (source, target)

    def inverse(self, value: int | bytes | None, _: int, __: int) -> None:
        """A row leaves the window."""
        if value is not None:
            self.total -= scaled_of(value)
            self.count -= 1

    def value(self) -> Any:
        """The sum now."""
        if not self.count:
            return None
        return decimal_of(rescale(self.total, *self.scales), 38)

    def final(self) -> Any:
        """The sum at the end."""
        return self.value()


class DecimalAverage(DecimalSum):
    """AVG of exact decimals: cut, not rounded, at its scale."""

    def value(self) -> Any:
        """The average now."""
        if not self.count:
            return None
        source, target = self.scales
        scaled = self.total * 10 ** (target - source)
        quotient = abs(scaled) // self.count
        return decimal_of(-quotient if scaled < 0 else quotient, 38)


class Single:
    """The one value of a scalar subquery; a second row is error 512."""

    def __init__(self) -> None:
        self.rows = 0
        self.kept: Any = None

    def step(self, value: Any) -> None:
        """A row."""
        self.rows += 1
        if self.rows > 1:
            raise messages.subquery_many_rows()
        self.kept = value

    def inverse(self, value: Any) -> None:
        """Not used: never a window."""

    def value(self) -> Any:
        """The value."""
        return self.kept

    def final(self) -> Any:
        """The value."""
        return self.kept


class Spread:
    """Variance and standard deviation by Welford's sums."""

    sample = True
    root = False

    def __init__(self) -> None:
        self.numbers: list[float] = []

    def step(self, value: float | None) -> None:
        """A row enters."""
        if value is not None:
            self.numbers.append(value)

    def inverse(self, value: float | None) -> None:
        """A row leaves the window."""
        if value is not None:
            self.numbers.remove(value)

    def value(self) -> Any:
        """The spread now."""
        count = len(self.numbers)
        divisor = count - 1 if self.sample else count
        if divisor < 1:
            return None
        mean = math.fsum(self.numbers) / count
        variance = math.fsum((x - mean) ** 2 for x in self.numbers) / divisor
        return math.sqrt(variance) if self.root else variance

    def final(self) -> Any:
        """The spread at the end."""
        return self.value()


def _spread(*, sample: bool, root: bool) -> Callable[[], Any]:
    """One of the four."""
    return type("Spread", (Spread,), {"sample": sample, "root": root})


AGGREGATES.extend(
    [
        ("t_decimal_sum", DecimalSum, 3),
        ("t_decimal_average", DecimalAverage, 3),
        ("t_single", Single, 1),
        ("t_stdev", _spread(sample=True, root=True), 1),
        ("t_stdevp", _spread(sample=False, root=True), 1),
        ("t_var", _spread(sample=True, root=False), 1),
        ("t_varp", _spread(sample=False, root=False), 1),
    ]
)

__all__ = ["AGGREGATE_NAMES", "WINDOW_NAMES", "SqlType", "aggregate", "contains_aggregate"]
