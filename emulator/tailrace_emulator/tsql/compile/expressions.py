"""Expressions and conditions to SQLite text.

Values are storage values throughout, so SQLite compares, groups and sorts them natively. Whatever
SQL Server does differently (overflow, division by zero, decimals wider than 64 bits) goes through a
function of functions/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.arithmetic import arithmetic, complemented, negated
from tailrace_emulator.tsql.compile.comparison import (
    EQUALITY,
    comparable,
    compared,
    compared_to_null,
    is_bare,
)
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.index_options import require_options
from tailrace_emulator.tsql.compile.lexicographic import (
    Keyset,
    keyset,
    lower_bound,
    twin_slots,
    upper_bound,
)
from tailrace_emulator.tsql.compile.next_value import next_value
from tailrace_emulator.tsql.compile.parsing import parse_text
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.single_row import at_most_one_row
from tailrace_emulator.tsql.compile.trigger_text import updates_column
from tailrace_emulator.tsql.compile.values import (
    Value,
    apply,
    constant,
    converted,
    ruled,
)
from tailrace_emulator.tsql.conversions import check_allowed
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.rules import Rule
from tailrace_emulator.tsql.functions.aggregates import contains_aggregate
from tailrace_emulator.tsql.functions.xml_methods import xml_method
from tailrace_emulator.tsql.syntax.nodes import (
    AtTimeZone,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Collate,
    ColumnName,
    Comparison,
    DefaultMark,
    DistinctFrom,
    Exists,
    Expression,
    GlobalVariable,
    InList,
    InQuery,
    IsNull,
    Like,
    Literal,
    Logical,
    MethodCall,
    NextValue,
    Not,
    Quantified,
    Query,
    ScalarQuery,
    Star,
    Unary,
    Variable,
)
from tailrace_emulator.values.collations import LIKE_UNICODE, collation, page_of, search_flags
from tailrace_emulator.values.types import INT, MAX, SqlType, nvarchar

_CONDITIONS: Final = (
    Comparison,
    Logical,
    Not,
    IsNull,
    Between,
    InList,
    InQuery,
    Quantified,
    Like,
    Exists,
    DistinctFrom,
)
VARCHAR_MAX: Final = 8000
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Surroundings(Protocol):
    """What expressions take from the compiler of their query."""

    def subquery(self, query: Query, scope: Scope) -> tuple[str, list[Value]]:
        """Text and columns of a subquery."""

    def call(self, node: Call, scope: Scope) -> Value:
        """A function call."""

    def global_variable(self, name: str) -> Value:
        """An @@ variable."""


class ExpressionCompiler:
    """Compiles expressions and conditions."""

    def __init__(
        self,
        compilation: Compilation,
        surroundings: Surroundings,
        variable: Callable[[str], Value] | None = None,
    ) -> None:
        """Begin.

        Args:
            surroundings: the compiler of the query.
            variable: reads a variable; None for the value that it has before the statement.
        """
        self.compilation = compilation
        self._surroundings = surroundings
        read = compilation.variable if variable is None else variable
        self._values: dict[type, Callable[[Any, Scope], Value]] = {
            Literal: lambda node, _: self._literal(node),
            Variable: lambda node, _: read(node.name),
            ColumnName: self._column,
            GlobalVariable: self._global,
            Unary: self._unary,
            Binary: self._binary,
            Case: self._case,
            Cast: self._cast,
            Collate: self._collate,
            Call: self._call,
            ScalarQuery: self._scalar_query,
            AtTimeZone: self._at_time_zone,
            NextValue: lambda node, scope: next_value(self, node, scope),
            MethodCall: self._method,
        }
        self._conditions: dict[type, Callable[[Any, Scope], str]] = {
            Logical: self._logical,
            Comparison: self._comparison,
            Not: lambda node, scope: f"(NOT {self.condition(node.operand, scope)})",
            IsNull: self._is_null,
            Between: self._between,
            InList: self._in_list,
            InQuery: self._in_query,
            Like: self._like,
            DistinctFrom: self._distinct,
            Exists: self._exists,
            Quantified: self._quantified,
        }

    # Values -------------------------------------------------------------------------------------

    def value(self, node: Expression, scope: Scope) -> Value:
        """A scalar.

        Raises:
            SqlError: whatever is wrong with it.
        """
        if scope.grouped is not None and not scope.inside_aggregate:
            free = scope.ungrouped()
            if not isinstance(node, Literal | Variable | ColumnName):
                matched = self._grouped_text(node, free)
                if matched is not None and matched.sql in scope.grouped:
                    return _in_set(matched, scope)
        compile_node = self._values.get(type(node))
        if compile_node is None:
            raise self._misplaced(node)
        return compile_node(node, scope)

    def _grouped_text(self, node: Expression, scope: Scope) -> Value | None:
        """The expression without the check of GROUP BY, when it holds no aggregate."""
        if isinstance(node, _CONDITIONS) or contains_aggregate(node):
            return None
        return self.value(node, scope)

    def _misplaced(self, node: Expression) -> Exception:
        """The error of a node that is not a scalar."""
        if isinstance(node, Star):
            return messages.syntax("*", 1)
        if isinstance(node, DefaultMark):
            return messages.keyword_syntax("DEFAULT", 1)
        if isinstance(node, Comparison):
            return messages.syntax(node.operator, 1)
        return messages.syntax(type(node).__name__.upper(), 1)

    def _literal(self, node: Literal) -> Value:
        """A constant; text is in the database's collation, and varchar in its code page."""
        if not isinstance(node.value, str):
            return constant(node.value, node.type, literal=True)
        sql_type = node.type.collated(self.compilation.database.collation)
        text = node.value
        if sql_type.name == "varchar" and not text.isascii():
            page = page_of(sql_type.collation)
            text = page.kept(text)
            size = max(1, page.size(text))
            sql_type = replace(sql_type, length=size if size <= VARCHAR_MAX else MAX)
        return constant(text, sql_type, literal=True)

    def _column(self, node: ColumnName, scope: Scope) -> Value:
        value = scope.resolve(node.parts, node.line).value()
        self.compilation.uses_masked |= bool(value.mask)
        return value if scope.inside_aggregate else _in_set(value, scope)

    def _global(self, node: GlobalVariable, _: Scope) -> Value:
        return self._surroundings.global_variable(node.name)

    def _call(self, node: Call, scope: Scope) -> Value:
        return self._surroundings.call(node, scope)

    def _method(self, node: MethodCall, scope: Scope) -> Value:
        require_options(self.compilation.semantics, "SELECT")
        return xml_method(self.value(node.operand, scope), node.method, node.arguments)

    def _unary(self, node: Unary, scope: Scope) -> Value:
        operand = self.value(node.operand, scope)
        if node.operator == "+":
            return operand
        return complemented(operand) if node.operator == "~" else negated(operand)

    def _binary(self, node: Binary, scope: Scope) -> Value:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        return arithmetic(node.operator, left, right, self.compilation.semantics)

    def _case(self, node: Case, scope: Scope) -> Value:
        conditions: list[str] = []
        if node.operand is None:
            conditions = [self.condition(when, scope) for when, _ in node.branches]
        else:
            operand = node.operand
            conditions = [self._compared("=", operand, when, scope) for when, _ in node.branches]
        results = [self.value(then, scope) for _, then in node.branches]
        otherwise = self.value(node.otherwise, scope) if node.otherwise else None
        return choose(conditions, results, otherwise)

    def _cast(self, node: Cast, scope: Scope) -> Value:
        value = self.value(node.operand, scope)
        style = None
        if node.style is None and "PARSE" in node.function:
            return parse_text(self, node, value, None)
        if node.style is not None:
            style_value = self.value(node.style, scope)
            if "PARSE" in node.function:
                return parse_text(self, node, value, style_value)
            if style_value.constant is None or not isinstance(style_value.constant.value, int):
                if style_value.is_null:
                    return replace(constant(None, node.type), type=node.type)
                raise not_supported("CONVERT with a style that is not an integer constant")
            style = style_value.constant.value
        target = node.type
        if target.is_character and value.type.is_character and value.type.collation:
            target = replace(target, collation=value.type.collation)
        target = target.collated(self.compilation.database.collation)
        return self.cast(value, target, style, quiet=node.function.startswith("TRY_"))

    def cast(
        self, value: Value, target: SqlType, style: int | None = None, *, quiet: bool = False
    ) -> Value:
        """CAST and CONVERT; ``quiet`` yields NULL instead of an error."""
        source = value.type
        if value.is_null:
            return converted(value, target)
        if not quiet:
            return apply(value, Rule(source, target, style))
        check_allowed(source, target, explicit=True)
        return Value(ruled(value.sql, Rule(source, target, style, quiet=True)), target)

    def _collate(self, node: Collate, scope: Scope) -> Value:
        value = self.value(node.operand, scope)
        if not value.type.is_character or value.type.name == "xml":
            raise messages.error(447, value.type.name)
        folded = node.collation.casefold()
        name = None if folded in {"database_default", "catalog_default"} else node.collation
        named = collation(name or self.compilation.database.collation)
        target = replace(value.type, collation=named.name)
        converted_text = apply(value, Rule(value.type, target))
        return replace(converted_text, explicit=True)

    def _scalar_query(self, node: ScalarQuery, scope: Scope) -> Value:
        text, columns = self._surroundings.subquery(node.query, scope)
        if len(columns) != 1:
            raise messages.error(116)
        column = columns[0]
        alias = self.compilation.alias("q")
        if at_most_one_row(node.query):
            return Value(f"({text})", column.type, form=column.form)
        single = f"(SELECT t_single(v0) FROM ({text}) AS {alias})"
        return Value(single, column.type, form=column.form)

    def _at_time_zone(self, node: AtTimeZone, scope: Scope) -> Value:
        zone = self.as_text(self.value(node.zone, scope))
        value = self.value(node.operand, scope)
        if value.type.name not in {"smalldatetime", "datetime", "datetime2", "datetimeoffset"}:
            raise messages.error(8116, value.type.name, 1, "AT TIME ZONE")
        scale = value.type.scale if value.type.name in {"datetime2", "datetimeoffset"} else 7
        target = SqlType("datetimeoffset", scale=scale)
        if value.type.name == "datetimeoffset":
            return Value(f"t_at_time_zone({value.sql}, {zone.sql})", target)
        if value.type.name == "datetime":
            target = SqlType("datetimeoffset", scale=3)
        elif value.type.name == "smalldatetime":
            target = SqlType("datetimeoffset", scale=0)
        local = converted(value, target, explicit=True)
        return Value(f"t_in_time_zone({local.sql}, {zone.sql})", target)

    # Conditions ---------------------------------------------------------------------------------

    def condition(self, node: Expression, scope: Scope) -> str:
        """SQLite text of a condition, three-valued as in SQL Server."""
        compile_node = self._conditions.get(type(node))
        if compile_node is not None:
            return compile_node(node, scope)
        if isinstance(node, Call) and node.name[-1].upper() == "UPDATE":
            return updates_column(self.compilation, node)
        raise messages.not_boolean(_near(node), 1)

    def _comparison(self, node: Comparison, scope: Scope) -> str:
        return self._compared(node.operator, node.left, node.right, scope)

    def _compared(self, operator: str, left: Expression, right: Expression, scope: Scope) -> str:
        """A comparison under the session's ANSI_NULLS."""
        sides = self.value(left, scope), self.value(right, scope)
        if self.compilation.semantics.ansi_nulls or operator not in EQUALITY:
            return compared(operator, *sides)
        return compared_to_null(operator, *sides, is_bare(left), is_bare(right))

    def _is_null(self, node: IsNull, scope: Scope) -> str:
        value = self.value(node.operand, scope)
        return f"({value.sql} IS {'NOT ' if node.negated else ''}NULL)"

    def _exists(self, node: Exists, scope: Scope) -> str:
        text, _ = self._surroundings.subquery(node.query, scope)
        return f"EXISTS ({text})"

    def _logical(self, node: Logical, scope: Scope) -> str:
        operands = [self.condition(operand, scope) for operand in node.operands]
        text = "(" + f" {node.operator} ".join(operands) + ")"
        found = keyset(node) if node.operator == "OR" else None
        return text if found is None else self._keyset(found, text, scope)

    def _keyset(self, found: Keyset, text: str, scope: Scope) -> str:
        """A keyset condition as a row comparison, or with a bound that lets SQLite seek."""
        lefts: list[str] = []
        rights: list[str] = []
        twins: list[tuple[int, int]] = []
        bounds: list[str] = []
        for column, others in zip(found.columns, found.others, strict=True):
            value = self.value(column, scope)
            pairs = [comparable(value, self.value(other, scope)) for other in others]
            slots = twin_slots([right for _, right in pairs])
            plain = {value.sql, value.collated} if value.stored else {value.sql}
            if slots is None or any(left not in plain for left, _ in pairs):
                return text
            lefts.append(value.sql)
            rights.append(pairs[0][1])
            twins += slots
            if len(lefts) == 1:
                bounds = [right for _, right in pairs[:2]]
        if not twins or self.compilation.merge_twins:
            return f"(({', '.join(lefts)}) {found.operator} ({', '.join(rights)}))"
        self.compilation.twins += twins
        ascending = found.operator in {">", ">="}
        bound = (
            lower_bound(bounds[0], bounds[1]) if ascending else upper_bound(bounds[0], bounds[1])
        )
        return f"({text} AND {lefts[0]} {'>=' if ascending else '<='} {bound})"

    def _between(self, node: Between, scope: Scope) -> str:
        value = self.value(node.operand, scope)
        low = compared(">=", value, self.value(node.low, scope))
        high = compared("<=", value, self.value(node.high, scope))
        text = f"({low} AND {high})"
        return f"(NOT {text})" if node.negated else text

    def _in_list(self, node: InList, scope: Scope) -> str:
        if not self.compilation.semantics.ansi_nulls:
            terms = [self._compared("=", node.operand, item, scope) for item in node.items]
            text = "(" + " OR ".join(terms) + ")"
            return f"(NOT {text})" if node.negated else text
        value = self.value(node.operand, scope)
        pairs = [comparable(value, self.value(item, scope), equality=True) for item in node.items]
        operand = pairs[0][0]
        if all(left == operand for left, _ in pairs):
            text = f"({operand} IN ({', '.join(right for _, right in pairs)}))"
        else:
            text = "(" + " OR ".join(f"({left} = {right})" for left, right in pairs) + ")"
        return f"(NOT {text})" if node.negated else text

    def _distinct(self, node: DistinctFrom, scope: Scope) -> str:
        sides = self.value(node.left, scope), self.value(node.right, scope)
        left, right = comparable(*sides, equality=True)
        return f"({left} IS {'' if node.negated else 'NOT '}{right})"

    def _in_query(self, node: InQuery, scope: Scope) -> str:
        value = self.value(node.operand, scope)
        text, columns = self._surroundings.subquery(node.query, scope)
        if len(columns) != 1:
            raise messages.error(116)
        alias = self.compilation.alias("q")
        left, right = comparable(value, replace(columns[0], sql=f"{alias}.v0"), equality=True)
        if not self.compilation.semantics.ansi_nulls:
            text = f"(EXISTS (SELECT 1 FROM ({text}) AS {alias} WHERE {left} IS {right}))"
            return f"(NOT {text})" if node.negated else text
        text = f"({left} IN (SELECT {right} FROM ({text}) AS {alias}))"
        return f"(NOT {text})" if node.negated else text

    def _quantified(self, node: Quantified, scope: Scope) -> str:
        value = self.value(node.operand, scope)
        text, columns = self._surroundings.subquery(node.query, scope)
        alias = self.compilation.alias("q")
        other = replace(columns[0], sql=f"{alias}.v0", constant=None, literal=False)
        operator = node.operator
        if not self.compilation.semantics.ansi_nulls:
            operator = {"=": "IS", "<>": "IS NOT", "!=": "IS NOT"}.get(operator, operator)
        condition = compared(operator, value, other)
        # max(CASE) over the rows: true, else unknown, else false.
        rank = f"CASE WHEN {condition} THEN 2 WHEN {condition} IS NULL THEN 1 ELSE 0 END"
        if node.quantifier == "ANY":
            ranked = f"(SELECT coalesce(max({rank}), 0) FROM ({text}) AS {alias})"
        else:
            ranked = f"(SELECT coalesce(min({rank}), 2) FROM ({text}) AS {alias})"
        return f"(CASE {ranked} WHEN 2 THEN 1 WHEN 1 THEN NULL ELSE 0 END)"

    def _like(self, node: Like, scope: Scope) -> str:
        value = self.as_text(self.value(node.operand, scope))
        pattern = self.as_text(self.value(node.pattern, scope))
        escape = self.as_text(self.value(node.escape, scope)).sql if node.escape else "NULL"
        flags = search_flags(value.type.collation)
        if any(side.type.name in {"nchar", "nvarchar", "ntext"} for side in (value, pattern)):
            flags |= LIKE_UNICODE
        text = f"t_like({value.sql}, {pattern.sql}, {escape}, {flags})"
        return f"(NOT {text})" if node.negated else text

    # For functions ------------------------------------------------------------------------------

    def as_text(self, value: Value) -> Value:
        """A value as text, converted implicitly."""
        if value.type.is_character:
            return value
        if value.is_null:
            return converted(value, nvarchar(4000))
        if family(value.type) is Family.CLR:
            raise not_supported(f"{value.type.name} values in functions of text (use CAST)")
        length = 8000 if family(value.type) is Family.BINARY else 100
        return converted(value, SqlType("varchar", length=length), explicit=True)

    def as_int(self, value: Value) -> Value:
        """A value as int, converted implicitly."""
        return converted(value, INT)


def _in_set(value: Value, scope: Scope) -> Value:
    """A grouping expression: NULL where it is not in the grouping set."""
    if value.sql not in scope.absent:
        return value
    return replace(value, sql="NULL", nullable=True, stored=False)


def choose(conditions: list[str], results: list[Value], otherwise: Value | None) -> Value:
    """CASE over compiled parts, in the type that all results share."""
    everything = results if otherwise is None else [*results, otherwise]
    target = types_of.unite(v.type for v in everything if not v.is_null)
    parts = [
        f"WHEN {condition} THEN {converted(result, target).sql}"
        for condition, result in zip(conditions, results, strict=True)
    ]
    if otherwise is not None:
        parts.append(f"ELSE {converted(otherwise, target).sql}")
    nullable = otherwise is None or any(v.nullable for v in everything)
    return Value(f"(CASE {' '.join(parts)} END)", target, nullable)


def _near(node: Expression) -> str:
    """The text near which a non-boolean stands."""
    if isinstance(node, ColumnName):
        return node.parts[-1]
    if isinstance(node, Variable | GlobalVariable):
        return node.name
    return ")"


__all__ = ["ExpressionCompiler", "choose"]
