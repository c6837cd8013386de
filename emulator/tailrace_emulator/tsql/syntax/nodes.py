"""The syntax tree of expressions and queries.

Nodes are immutable and compared by identity, so that a parsed batch can be shared by sessions and
serve as the key of compiled plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.values.types import SqlType, StorageValue

Name = tuple[str, ...]
"""A dotted name as written, quotes removed; an omitted middle part is empty."""


class Node:
    """Anything in the tree."""

    __slots__ = ()


class Expression(Node):
    """A scalar or a condition: the compiler distinguishes them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant with the type SQL Server gives it; ``NULL`` has type int and value None."""

    type: SqlType
    value: StorageValue


@dataclass(frozen=True, slots=True, eq=False)
class ColumnName(Expression):
    """A (qualified) column, or a name such as inserted.x."""

    parts: Name
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Star(Expression):
    """``*`` or ``t.*``, in a select list or COUNT(*)."""

    qualifier: Name = ()


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Expression):
    """``@x``."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class GlobalVariable(Expression):
    """``@@x``."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """``-x``, ``+x``, ``~x``."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """Arithmetic, concatenation or bits: ``+ - * / % & | ^``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Expression):
    """``= <> < <= > >=``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Logical(Expression):
    """AND or OR over two or more conditions."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not(Expression):
    """NOT condition."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Expression):
    """``x IS [NOT] NULL``."""

    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class DistinctFrom(Expression):
    """``x IS [NOT] DISTINCT FROM y``."""

    left: Expression
    right: Expression
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class Between(Expression):
    """``x [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class InList(Expression):
    """``x [NOT] IN (a, b)``."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class InQuery(Expression):
    """``x [NOT] IN (SELECT ...)``."""

    operand: Expression
    query: Query
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class Quantified(Expression):
    """``x > ALL (SELECT ...)``; ``quantifier`` is ALL or ANY."""

    operator: str
    operand: Expression
    quantifier: str
    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class Like(Expression):
    """``x [NOT] LIKE pattern [ESCAPE c]``."""

    operand: Expression
    pattern: Expression
    escape: Expression | None
    negated: bool


@dataclass(frozen=True, slots=True, eq=False)
class Exists(Expression):
    """``EXISTS (SELECT ...)``."""

    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class ScalarQuery(Expression):
    """``(SELECT ...)`` as a value."""

    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class Case(Expression):
    """CASE, simple when ``operand`` is given."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expression):
    """CAST, CONVERT, PARSE and their TRY_ forms; ``function`` is which, upper-cased."""

    function: str
    operand: Expression
    type: SqlType
    style: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Collate(Expression):
    """``x COLLATE name``."""

    operand: Expression
    collation: str


@dataclass(frozen=True, slots=True, eq=False)
class AtTimeZone(Expression):
    """``x AT TIME ZONE 'name'``."""

    operand: Expression
    zone: Expression


@dataclass(frozen=True, slots=True, eq=False)
class OrderItem(Node):
    """One ORDER BY term."""

    expression: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Over(Node):
    """An OVER clause; ``frame`` is its ROWS/RANGE text, upper-cased, or empty.

    ``base`` is the window of the WINDOW clause that it builds on.
    """

    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """A function call. ``name`` keeps its spelling (a missing function is named in an error).

    ``warns`` is whether an aggregate reports that it leaves NULL out.
    """

    name: Name
    arguments: tuple[Expression, ...]
    line: int
    distinct: bool = False
    over: Over | None = None
    within_group: tuple[OrderItem, ...] = ()
    warns: bool = True


XML_METHODS: Final = frozenset({"value", "query", "exist", "nodes", "modify"})


@dataclass(frozen=True, slots=True, eq=False)
class MethodCall(Expression):
    """``x.value(..)``: a method of an xml value."""

    operand: Expression
    method: str
    arguments: tuple[Expression, ...]
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class NextValue(Expression):
    """NEXT VALUE FOR a sequence, with OVER in the order of the rows that it says."""

    name: Name
    line: int
    over: Over | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DefaultMark(Expression):
    """DEFAULT in VALUES or SET."""


# Queries ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SelectItem(Node):
    """One element of a select list; ``variable`` is set for ``@x = expression``."""

    expression: Expression
    alias: str | None = None
    variable: str | None = None
    operator: str = "="


@dataclass(frozen=True, slots=True, eq=False)
class Top(Node):
    """TOP (n) [PERCENT] [WITH TIES]."""

    count: Expression
    percent: bool = False
    ties: bool = False


class Source(Node):
    """An element of FROM."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class TableName(Source):
    """A table, view or CTE by name; hints change no result and are kept upper-cased."""

    name: Name
    line: int
    alias: str | None = None
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class VariableTable(Source):
    """A table variable."""

    name: str
    alias: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SchemaColumn(Node):
    """A column of OPENJSON's WITH clause; ``path`` None is the member of its name."""

    name: str
    type: SqlType
    path: str | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTable(Source):
    """A table-valued function; ``schema`` is the WITH clause of OPENJSON."""

    name: Name
    arguments: tuple[Expression, ...]
    line: int
    alias: str | None = None
    column_names: tuple[str, ...] = ()
    schema: tuple[SchemaColumn, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Derived(Source):
    """A subquery or VALUES list in FROM."""

    query: Query
    alias: str
    column_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Pivot(Source):
    """``source PIVOT (aggregate FOR column IN (values)) AS alias``."""

    source: Source
    aggregate: Call
    column: ColumnName
    values: tuple[str, ...]
    alias: str


@dataclass(frozen=True, slots=True, eq=False)
class Unpivot(Source):
    """``source UNPIVOT (value FOR name IN (columns)) AS alias``."""

    source: Source
    value: str
    name: str
    columns: tuple[str, ...]
    alias: str


@dataclass(frozen=True, slots=True, eq=False)
class Join(Source):
    """``kind`` is INNER, LEFT, RIGHT, FULL, CROSS, CROSS APPLY or OUTER APPLY."""

    kind: str
    left: Source
    right: Source
    condition: Expression | None = None


class Body(Node):
    """The parts of a query below its ORDER BY."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Select(Body):
    """One SELECT."""

    items: tuple[SelectItem, ...]
    line: int
    distinct: bool = False
    top: Top | None = None
    into: Name | None = None
    source: Source | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    grouping_sets: tuple[tuple[Expression, ...], ...] = ()
    """Of GROUPING SETS, ROLLUP and CUBE: subsets of ``group_by``."""
    windows: tuple[tuple[str, Over], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation(Body):
    """UNION [ALL], EXCEPT, INTERSECT."""

    operator: str
    left: Query
    right: Query


@dataclass(frozen=True, slots=True, eq=False)
class ValueRows(Body):
    """VALUES (..), (..)."""

    rows: tuple[tuple[Expression, ...], ...]
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class CommonTable(Node):
    """One WITH element."""

    name: str
    column_names: tuple[str, ...]
    query: Query
    max_recursion: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class ForClause(Node):
    """FOR JSON or FOR XML.

    Attributes:
        format: either JSON or XML.
        mode: PATH, AUTO or RAW.
        element: name of a row's element; None is the default, empty is none.
        root: name of what stands around everything, or None.
        nulls: whether INCLUDE_NULL_VALUES or XSINIL is given.
        wrapped: whether JSON is in brackets.
        elements: whether XML has elements rather than attributes for columns.
        typed: the result is of type xml.
    """

    format: str
    mode: str
    element: str | None = None
    root: str | None = None
    nulls: bool = False
    wrapped: bool = True
    elements: bool = False
    typed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Query(Node):
    """A whole query expression."""

    body: Body
    common_tables: tuple[CommonTable, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    offset: Expression | None = None
    fetch: Expression | None = None
    for_clause: ForClause | None = None

    @property
    def into(self) -> Name | None:
        """The table that its first SELECT makes."""
        body = self.body
        while isinstance(body, SetOperation):
            body = body.left.body
        return body.into if isinstance(body, Select) else None
