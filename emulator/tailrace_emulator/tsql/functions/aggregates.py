"""Aggregate and window functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.incomparable import check_sorted
from tailrace_emulator.tsql.compile.values import Value, constant, converted
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.functions.text_bounds import fitting_text
from tailrace_emulator.tsql.syntax.nodes import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Collate,
    Comparison,
    DistinctFrom,
    Expression,
    InList,
    IsNull,
    Like,
    Logical,
    Not,
    Over,
    Star,
    Unary,
)
from tailrace_emulator.values.types import (
    BIGINT,
    FLOAT,
    INCOMPARABLE_TYPES,
    INT,
    MAX,
    TINYINT,
    SqlType,
    nvarchar,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope

AGGREGATE_NAMES: Final = frozenset(
    {"COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STDEV", "STDEVP", "VAR", "VARP",
     "STRING_AGG", "APPROX_COUNT_DISTINCT", "CHECKSUM_AGG", "GROUPING", "GROUPING_ID"}
)  # fmt: skip
_RANKING: Final = {"ROW_NUMBER": "row_number", "RANK": "rank", "DENSE_RANK": "dense_rank"}
TAKES_DISTINCT: Final = AGGREGATE_NAMES - {"GROUPING", "GROUPING_ID"}
WINDOW_NAMES: Final = AGGREGATE_NAMES | frozenset(
    {*_RANKING, "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "PERCENT_RANK", "CUME_DIST",
     "PERCENTILE_CONT", "PERCENTILE_DISC", "GROUPING", "GROUPING_ID"}
)  # fmt: skip


def contains_aggregate(node: Expression) -> bool:
    """Whether an aggregate of the same query occurs in the expression (not in a subquery)."""
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


def contains_window(node: Expression) -> bool:
    """Whether a function with OVER of the same query occurs in the expression."""
    if isinstance(node, Call):
        return node.over is not None or any(contains_window(a) for a in node.arguments)
    return any(contains_window(child) for child in _children(node))


def refuse_windows(node: Expression) -> None:
    """Where a value is assigned, nothing has OVER.

    Raises:
        SqlError: 4108 for a function with OVER.
    """
    if contains_window(node):
        raise messages.error(4108)


def _refuse_nested(node: Call) -> None:
    """What may not stand within an aggregate or a function with OVER.

    Raises:
        SqlError: 130 an aggregate within an aggregate, 4109 a function with OVER within either.
    """
    parts = list(node.arguments)
    if node.over is not None:
        parts += [*node.over.partition, *(o.expression for o in node.over.order)]
    elif any(contains_aggregate(part) for part in parts):
        raise messages.error(130)
    if any(contains_window(part) for part in parts):
        raise messages.error(4109)


def _children(node: Expression) -> list[Expression]:
    """Direct operands of an expression."""
    if isinstance(node, Binary | Comparison | DistinctFrom):
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


def aggregate(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """An aggregate, or any function with OVER."""
    name = node.name[0].upper()
    if node.distinct and node.over is not None:
        raise messages.error(10759)
    _refuse_nested(node)
    if name in {"GROUPING", "GROUPING_ID"}:
        return _grouping(compiler, node, scope)
    if name.startswith("PERCENTILE_"):
        return _percentile(compiler, node, scope)
    window = "" if node.over is None else f" OVER ({_window(compiler, node, scope)})"
    inner = scope if node.over is not None else replace(scope, inside_aggregate=True)
    if name in _RANKING or name in {"NTILE", "PERCENT_RANK", "CUME_DIST"}:
        return _ranking(compiler, node, inner, window)
    if name == "APPROX_COUNT_DISTINCT":
        return _count(compiler, replace(node, name=("COUNT_BIG",), distinct=True), inner, window)
    special = {"COUNT": _count, "COUNT_BIG": _count, "STRING_AGG": _string_agg,
               "LAG": _offset, "LEAD": _offset, "FIRST_VALUE": _offset,
               "LAST_VALUE": _offset}.get(name)  # fmt: skip
    if special is not None:
        return special(compiler, node, inner, window)
    if len(node.arguments) != 1:
        raise messages.argument_count(name, 1)
    argument = compiler.value(node.arguments[0], inner)
    if argument.is_null:
        raise messages.error(8117, "NULL", name.lower())
    argument, warned = _warning(compiler, node, argument, window, grouped=bool(scope.grouped))
    return warned(_of_one(compiler, name, argument, "DISTINCT " if node.distinct else "", window))


def _warning(
    compiler: Expressions, node: Call, argument: Value, window: str, *, grouped: bool
) -> tuple[Value, Callable[[Value], Value]]:
    """The argument of an aggregate, and what is to be done with its result, to notice NULL (8153).

    A column's NULLs are counted next to the aggregate, which SQLite does alone. An expression is
    evaluated once, and a function called if it is NULL. MIN and MAX of a whole table's column are
    left alone, so that they are found in an index.
    """
    options = compiler.compilation.semantics
    if not (options.ansi_warnings and argument.nullable and node.warns):
        return argument, _unchanged
    if not window and argument.stored:
        if not grouped and node.name[0].upper() in {"MIN", "MAX"}:
            return argument, _unchanged
        found = f"count(*) > count({argument.sql})"
        return argument, lambda value: replace(
            value,
            sql=f"(CASE WHEN {found} THEN t_null_eliminated({value.sql}) ELSE {value.sql} END)",
        )
    noticed = f"ifnull({argument.sql}, t_null_eliminated())"
    return replace(argument, sql=noticed, constant=None), _unchanged


def _unchanged(value: Value) -> Value:
    return value


def _ranking(compiler: Expressions, node: Call, scope: Scope, window: str) -> Value:
    """ROW_NUMBER, RANK, DENSE_RANK, NTILE, PERCENT_RANK, CUME_DIST."""
    name = node.name[0].upper()
    if name in _RANKING:
        return Value(f"{_RANKING[name]}(){window}", BIGINT, nullable=True)
    if name == "NTILE":
        buckets = compiler.as_int(compiler.value(node.arguments[0], scope))
        return Value(f"ntile({buckets.sql}){window}", BIGINT)
    return Value(f"{name.lower()}(){window}", FLOAT)


def _of_one(compiler: Expressions, name: str, argument: Value, distinct: str, window: str) -> Value:
    """MIN, MAX, SUM, AVG, CHECKSUM_AGG and the spreads."""
    if name == "CHECKSUM_AGG":
        value = compiler.as_int(argument)
        return Value(f"t_checksum_agg({distinct}{value.sql}){window}", INT)
    if name in {"MIN", "MAX"}:
        if argument.type.name == "bit" or argument.type.name in INCOMPARABLE_TYPES:
            raise messages.invalid_operator_type(argument.type.name, name.lower())
        return Value(f"{name.lower()}({argument.collated}){window}", argument.type)
    if name in {"SUM", "AVG"}:
        return _sum_or_average(name, argument, distinct, window)
    value = converted(argument, FLOAT)
    return Value(f"t_{name.lower()}({distinct}{value.sql}){window}", FLOAT)


def _window(compiler: Expressions, node: Call, scope: Scope) -> str:
    """The inside of OVER."""
    over = _resolved(known(node.over, "OVER clause"), scope)
    parts = []
    if over.partition:
        partition = [compiler.value(e, scope) for e in over.partition]
        check_sorted(partition, "PARTITION BY")
        terms = [value.collated for value in partition]
        parts.append(f"PARTITION BY {', '.join(terms)}")
    if over.order:
        terms = []
        for item in over.order:
            value = compiler.value(item.expression, scope)
            check_sorted([value], "ORDER BY")
            term = "(SELECT NULL)" if value.constant is not None else value.collated
            terms.append(f"{term}{' DESC' if item.descending else ''}")
        parts.append(f"ORDER BY {', '.join(terms)}")
    elif node.name[0].upper() in {*_RANKING, "NTILE", "LAG", "LEAD"}:
        raise messages.error(4112, node.name[0])
    if over.frame:
        _check_frame(over.frame)
        parts.append(over.frame)
    return " ".join(parts)


def _resolved(over: Over, scope: Scope) -> Over:
    """An OVER clause with what it takes from the WINDOW clause."""
    if not over.base:
        return over
    base = next((w for name, w in scope.windows if name == over.base.casefold()), None)
    if base is None:
        raise messages.error(5362, over.base)
    base = _resolved(base, scope)
    return Over(
        over.partition or base.partition, over.order or base.order, over.frame or base.frame
    )


def _check_frame(frame: str) -> None:
    """RANGE takes no distances.

    Raises:
        SqlError: 4194 for RANGE with a distance.
    """
    words = set(frame.split())
    if "RANGE" in words and any(word[0].isdigit() for word in words):
        raise messages.error(4194)


def _grouping(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """GROUPING(x): 1 where x is not in the grouping set; GROUPING_ID: the bits of several."""
    bits = []
    name = node.name[0].upper()
    for position, argument in enumerate(node.arguments, 1):
        text = compiler.value(argument, scope.ungrouped()).sql
        if scope.grouped is None or text not in scope.grouped:
            raise messages.error(8161, position, name)
        bits.append(int(text in scope.absent))
    number = int("".join(map(str, bits)) or "0", 2)
    return constant(number, TINYINT if name == "GROUPING" else INT)


def _percentile(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """PERCENTILE_CONT and PERCENTILE_DISC (p) WITHIN GROUP (ORDER BY x) OVER (PARTITION BY ..)."""
    name = node.name[0].upper()
    if len(node.within_group) != 1 or node.over is None:
        raise messages.error(10754 if node.over else 10753, node.name[0])
    fraction = converted(compiler.value(node.arguments[0], scope), FLOAT, explicit=True)
    known_fraction = fraction.constant.value if fraction.constant else None
    if isinstance(known_fraction, float) and not 0 <= known_fraction <= 1:
        raise messages.error(10756)
    order = node.within_group[0]
    value = compiler.value(order.expression, scope)
    window = _window(compiler, node, scope)
    result = value.type
    if name == "PERCENTILE_CONT":
        value, result = converted(value, FLOAT), FLOAT
    mode = int(name == "PERCENTILE_CONT")
    arguments = f"{fraction.sql}, {value.sql}, {int(order.descending)}, {mode}"
    return Value(f"t_percentile({arguments}) OVER ({window})", result)


def _offset(compiler: Expressions, node: Call, scope: Scope, window: str) -> Value:
    """LAG, LEAD, FIRST_VALUE, LAST_VALUE."""
    value = compiler.value(node.arguments[0], scope)
    texts = [value.sql]
    if len(node.arguments) > 1:
        texts.append(compiler.as_int(compiler.value(node.arguments[1], scope)).sql)
    if len(node.arguments) > 2:
        texts.append(converted(compiler.value(node.arguments[2], scope), value.type).sql)
    return Value(f"{node.name[0].lower()}({', '.join(texts)}){window}", value.type)


def _count(compiler: Expressions, node: Call, scope: Scope, window: str) -> Value:
    """COUNT and COUNT_BIG."""
    result = INT if node.name[0].upper() == "COUNT" else BIGINT
    if len(node.arguments) != 1:
        raise messages.argument_count(node.name[0], 1)
    if isinstance(node.arguments[0], Star):
        return Value(f"count(*){window}", result, nullable=False)
    argument = compiler.value(node.arguments[0], scope)
    value, warned = _warning(compiler, node, argument, window, grouped=bool(scope.grouped))
    text = f"DISTINCT {value.collated}" if node.distinct else value.sql
    return warned(Value(f"count({text}){window}", result, nullable=False))


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
    text = f"{function}({argument.sql}, {argument.type.scale}, {result.scale}){window}"
    if distinct:
        # SQLite takes DISTINCT in aggregates of one argument only: the sum is made of a list.
        total = f"t_distinct_values(DISTINCT {argument.sql}){window}"
        text = f"{function}_of({total}, {argument.type.scale}, {result.scale})"
    return Value(f"t_money({text}, 19)" if money else text, result)


def _string_agg(compiler: Expressions, node: Call, scope: Scope, window: str) -> Value:
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
    joined = f"group_concat({text.sql}, {separator.sql}{order}){window}"
    return fitting_text(joined, result, 9829)


__all__ = [
    "AGGREGATE_NAMES",
    "WINDOW_NAMES",
    "SqlType",
    "aggregate",
    "contains_aggregate",
    "contains_window",
    "refuse_windows",
]
