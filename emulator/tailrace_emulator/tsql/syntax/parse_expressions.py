"""Grammar of expressions and conditions: they share one; the compiler refuses what is misplaced."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import literals
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR
from tailrace_emulator.tsql.syntax.nodes import (
    XML_METHODS,
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
    OrderItem,
    Over,
    Quantified,
    ScalarQuery,
    Star,
    Unary,
    Variable,
)
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.tokens import RESERVED, Kind
from tailrace_emulator.values.types import DATETIME, UNIQUEIDENTIFIER, nvarchar

_COMPARISONS: Final = {
    "=": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "!<": ">=",
    "!>": "<=",
}
_BARE_FUNCTIONS: Final = frozenset(
    {"CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER", "CURRENT_DATE"}
)
_RESERVED_FUNCTIONS: Final = frozenset(
    {"LEFT", "RIGHT", "COALESCE", "NULLIF", "USER", "IDENTITY", "UPDATE", "SESSION_USER"}
)
_LITERALS: Final = {
    Kind.NUMBER: literals.number,
    Kind.STRING: literals.string,
    Kind.NATIONAL: literals.string,
    Kind.BINARY: literals.binary,
}
_CASTS: Final = frozenset({"CAST", "TRY_CAST", "PARSE", "TRY_PARSE"})


_ODBC_FUNCTIONS: Final = {
    "NOW": ("GETDATE", ""),
    "CURDATE": ("CURRENT_DATE", ""),
    "UCASE": ("UPPER", ""),
    "LCASE": ("LOWER", ""),
    "LENGTH": ("LEN", ""),
    "IFNULL": ("ISNULL", ""),
    "DATABASE": ("DB_NAME", ""),
    "DAYOFMONTH": ("DATEPART", "day"),
    "DAYOFWEEK": ("DATEPART", "weekday"),
    "DAYOFYEAR": ("DATEPART", "dayofyear"),
    "DAYNAME": ("DATENAME", "weekday"),
    "MONTHNAME": ("DATENAME", "month"),
    "HOUR": ("DATEPART", "hour"),
    "MINUTE": ("DATEPART", "minute"),
    "SECOND": ("DATEPART", "second"),
    "WEEK": ("DATEPART", "week"),
    "QUARTER": ("DATEPART", "quarter"),
}
"""ODBC's functions that T-SQL has under another name, with the date part that they mean."""


def condition(cursor: TokenCursor) -> Expression:
    """OR level: any expression."""
    operands = [_conjunction(cursor)]
    while cursor.accept("OR"):
        operands.append(_conjunction(cursor))
    return operands[0] if len(operands) == 1 else Logical("OR", tuple(operands))


def _conjunction(cursor: TokenCursor) -> Expression:
    """AND level."""
    operands = [_negation(cursor)]
    while cursor.accept("AND"):
        operands.append(_negation(cursor))
    return operands[0] if len(operands) == 1 else Logical("AND", tuple(operands))


def _negation(cursor: TokenCursor) -> Expression:
    """NOT level."""
    if cursor.accept("NOT"):
        return Not(_negation(cursor))
    return _predicate(cursor)


def _predicate(cursor: TokenCursor) -> Expression:
    """A scalar, or a comparison of scalars."""
    left = scalar(cursor)
    operator = _COMPARISONS.get(cursor.token.upper)
    if operator is not None:
        cursor.advance()
        quantifier = cursor.accept_any("ALL", "ANY", "SOME")
        if quantifier:
            cursor.expect("(")
            query = GRAMMAR.query(cursor)
            cursor.expect(")")
            return Quantified(operator, left, "ALL" if quantifier == "ALL" else "ANY", query)
        return Comparison(operator, left, scalar(cursor))
    if cursor.accept("IS"):
        negated = cursor.accept("NOT")
        if cursor.accept("DISTINCT", "FROM"):
            return DistinctFrom(left, scalar(cursor), negated)
        cursor.expect("NULL")
        return IsNull(left, negated)
    negated = cursor.at("NOT") and cursor.ahead().upper in {"BETWEEN", "IN", "LIKE"}
    if negated:
        cursor.advance()
    if cursor.accept("BETWEEN"):
        low = scalar(cursor)
        cursor.expect("AND")
        return Between(left, low, scalar(cursor), negated)
    if cursor.accept("IN"):
        return _membership(cursor, left, negated=negated)
    if cursor.accept("LIKE"):
        pattern = scalar(cursor)
        escape = scalar(cursor) if cursor.accept("ESCAPE") else None
        return Like(left, pattern, escape, negated)
    return left


def _membership(cursor: TokenCursor, left: Expression, *, negated: bool) -> Expression:
    """What follows IN."""
    cursor.expect("(")
    if cursor.at_query():
        query = GRAMMAR.query(cursor)
        cursor.expect(")")
        return InQuery(left, query, negated)
    items = expression_list(cursor)
    cursor.expect(")")
    return InList(left, items, negated)


_SHIFTS: Final = {"<<": "LEFT_SHIFT", ">>": "RIGHT_SHIFT"}


def expression_list(cursor: TokenCursor) -> tuple[Expression, ...]:
    """``a, b, c``."""
    items = [scalar(cursor)]
    while cursor.accept(","):
        items.append(scalar(cursor))
    return tuple(items)


def scalar(cursor: TokenCursor) -> Expression:
    """Additive level: + - & | ^ << >> from left to right."""
    left = _product(cursor)
    while operator := cursor.accept_any("+", "-", "&", "|", "^", "<<", ">>"):
        right = _product(cursor)
        if operator in _SHIFTS:
            left = Call((_SHIFTS[operator],), (left, right), cursor.token.line)
        else:
            left = Binary(operator, left, right)
    return left


def _product(cursor: TokenCursor) -> Expression:
    """* / % from left to right."""
    left = unary(cursor)
    while operator := cursor.accept_any("*", "/", "%"):
        left = Binary(operator, left, unary(cursor))
    return left


def unary(cursor: TokenCursor) -> Expression:
    """A sign, a complement, or a postfix expression."""
    operator = cursor.accept_any("-", "+", "~")
    if operator:
        return Unary(operator, unary(cursor))
    expression = primary(cursor)
    while True:
        if cursor.accept("COLLATE"):
            expression = Collate(expression, cursor.identifier())
        elif cursor.at("AT", "TIME", "ZONE"):
            cursor.position += 3
            expression = AtTimeZone(expression, primary(cursor))
        elif cursor.at(".") and cursor.ahead().text in XML_METHODS and cursor.ahead(2).upper == "(":
            cursor.advance()
            expression = _method(cursor, expression, cursor.advance().text)
        elif cursor.at(".") and cursor.ahead().kind is Kind.WORD:
            raise not_supported(f"the method or property {cursor.ahead().text} of a CLR type")
        else:
            return expression


def primary(cursor: TokenCursor) -> Expression:
    """A constant, variable, column, call, CASE, subquery or parenthesised expression."""
    token = cursor.token
    kind = token.kind
    if kind in _LITERALS:
        return _LITERALS[kind](cursor.advance())
    if kind is Kind.MONEY:
        return literals.money_or_pseudocolumn(cursor)
    if kind is Kind.VARIABLE:
        cursor.advance()
        if token.text.startswith("@@"):
            return GlobalVariable(token.text)
        return Variable(token.text)
    if kind is Kind.OPERATOR:
        if token.text == "(":
            return _parenthesised(cursor)
        if token.text == "*":
            cursor.advance()
            return Star()
        if token.text == "{":
            return _escape(cursor)
        cursor.fail()
    if kind is Kind.WORD:
        return _word(cursor)
    if kind is Kind.QUOTED:
        return column_or_call(cursor)
    cursor.fail()


def _escape(cursor: TokenCursor) -> Expression:
    """ODBC's escape sequences: ``{d '..'}``, ``{t '..'}``, ``{ts '..'}``, ``{fn f(..)}``."""
    cursor.expect("{")
    kind = cursor.advance().text.lower()
    found: Expression
    if kind in {"d", "t", "ts", "guid"} and cursor.token.kind is Kind.STRING:
        literal = literals.string(cursor.advance())
        found = Cast("CAST", literal, UNIQUEIDENTIFIER if kind == "guid" else DATETIME)
    elif kind == "fn":
        found = _escaped_function(cursor)
    else:
        raise not_supported(f"the ODBC escape sequence {{{kind} ...}}")
    cursor.expect("}")
    return found


def _escaped_function(cursor: TokenCursor) -> Expression:
    """A function of ODBC under T-SQL's name for it."""
    line = cursor.token.line
    word = cursor.token.upper
    if word in {"LEFT", "RIGHT", "USER", "CONVERT"} or word not in _ODBC_FUNCTIONS:
        return primary(cursor)
    cursor.advance()
    arguments: tuple[Expression, ...] = ()
    if cursor.accept("("):
        arguments = () if cursor.at(")") else _arguments(cursor)
        cursor.expect(")")
    name, part = _ODBC_FUNCTIONS[word]
    if part:
        arguments = (ColumnName((part,), line), *arguments)
    return Call((name,), arguments, line)


def _parenthesised(cursor: TokenCursor) -> Expression:
    """``( condition )`` or ``( query )``."""
    cursor.expect("(")
    if cursor.at_query():
        query = GRAMMAR.query(cursor)
        cursor.expect(")")
        return ScalarQuery(query)
    inner = condition(cursor)
    cursor.expect(")")
    return inner


def _word(cursor: TokenCursor) -> Expression:
    """An expression that begins with an unquoted word."""
    token = cursor.token
    word = token.upper
    if word == "NULL":
        cursor.advance()
        return literals.NULL
    if word == "CASE":
        return _case(cursor)
    if word == "EXISTS":
        cursor.advance()
        cursor.expect("(")
        query = GRAMMAR.query(cursor)
        cursor.expect(")")
        return Exists(query)
    if word in _CASTS and cursor.ahead().upper == "(":
        return _cast(cursor)
    if word in {"CONVERT", "TRY_CONVERT"}:
        return _convert(cursor)
    if word in _BARE_FUNCTIONS and cursor.ahead().upper != "(":
        cursor.advance()
        return Call((token.text,), (), token.line)
    if name := cursor.pseudocolumn():
        return literals.pseudocolumn((name,), token.line)
    if word in RESERVED and not (word in _RESERVED_FUNCTIONS and cursor.ahead().upper == "("):
        cursor.fail()
    if word == "NEXT" and cursor.ahead().upper == "VALUE":
        return _next_value(cursor)
    return column_or_call(cursor)


def _next_value(cursor: TokenCursor) -> Expression:
    """``NEXT VALUE FOR sequence [OVER (ORDER BY ..)]``."""
    line = cursor.token.line
    cursor.expect("NEXT", "VALUE", "FOR")
    name = cursor.dotted_name()
    return NextValue(name, line, _over(cursor) if cursor.accept("OVER") else None)


def column_or_call(cursor: TokenCursor) -> Expression:
    """A column, ``t.*`` or a function call."""
    line = cursor.token.line
    parts = [cursor.advance().text]
    while cursor.accept("."):
        if cursor.accept("*"):
            return Star(tuple(parts))
        if name := cursor.pseudocolumn():
            return literals.pseudocolumn((*parts, name), line)
        parts.append("" if cursor.at(".") else cursor.identifier_after_dot())
    if cursor.accept("::"):
        raise not_supported(f"the method {'.'.join(parts)}::{cursor.token.text} of a CLR type")
    if cursor.at("("):
        if len(parts) > 1 and parts[-1] in XML_METHODS:
            return _method(cursor, ColumnName(tuple(parts[:-1]), line), parts[-1])
        return _call(cursor, tuple(parts), line)
    return ColumnName(tuple(parts), line)


def _method(cursor: TokenCursor, operand: Expression, method: str) -> Expression:
    """The arguments of a method."""
    line = cursor.token.line
    cursor.expect("(")
    arguments = () if cursor.at(")") else _arguments(cursor)
    cursor.expect(")")
    return MethodCall(operand, method, arguments, line)


def _call(cursor: TokenCursor, name: tuple[str, ...], line: int) -> Expression:
    """The arguments and clauses of a function call."""
    cursor.expect("(")
    arguments: tuple[Expression, ...] = ()
    if len(name) == 1 and name[0].upper() == "TRIM":
        return _trim(cursor, line)
    unique = cursor.accept_any("ALL", "DISTINCT")
    if unique:  # one argument, and no *
        arguments = (cursor.fail() if cursor.at("*") else condition(cursor),)
    elif not cursor.at(")"):
        arguments = _arguments(cursor)
    cursor.expect(")")
    within: tuple[OrderItem, ...] = ()
    if cursor.at("WITHIN", "GROUP"):
        cursor.position += 2
        cursor.expect("(")
        within = order_by(cursor)
        cursor.expect(")")
    if cursor.at("IGNORE", "NULLS") or cursor.at("RESPECT", "NULLS"):
        if cursor.token.upper == "IGNORE":
            raise not_supported("IGNORE NULLS")
        cursor.position += 2
    over = _over(cursor) if cursor.accept("OVER") else None
    return Call(name, arguments, line, unique == "DISTINCT", over, within)


def _trim(cursor: TokenCursor, line: int) -> Expression:
    """``TRIM([LEADING | TRAILING | BOTH] [characters FROM] text)``."""
    side = cursor.accept_any("LEADING", "TRAILING", "BOTH")
    first = scalar(cursor)
    arguments: tuple[Expression, ...] = (first,)
    if cursor.accept("FROM"):
        arguments = (scalar(cursor), first)
    elif side is not None:
        cursor.fail()
    cursor.expect(")")
    function = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side or "", "TRIM")
    return Call((function,), arguments, line)


def _arguments(cursor: TokenCursor) -> tuple[Expression, ...]:
    """Arguments; IIF's first is a condition, so each may be one."""
    items = [_call_argument(cursor)]
    while cursor.accept(","):
        items.append(_call_argument(cursor))
    return tuple(items)


def _call_argument(cursor: TokenCursor) -> Expression:
    """One argument; DEFAULT in a call of a user's function."""
    return DefaultMark() if cursor.accept("DEFAULT") else condition(cursor)


def _over(cursor: TokenCursor) -> Over:
    """``OVER (PARTITION BY .. ORDER BY .. ROWS ..)``, or ``OVER name``."""
    if cursor.at_name():
        return Over(base=cursor.identifier())
    return window(cursor)


def window(cursor: TokenCursor) -> Over:
    """``( [name] PARTITION BY .. ORDER BY .. ROWS .. )``."""
    cursor.expect("(")
    base = ""
    if cursor.at_name() and cursor.token.upper not in {"PARTITION", "ROWS", "RANGE"}:
        base = cursor.identifier()
    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame = ""
    if cursor.accept("PARTITION", "BY"):
        partition = expression_list(cursor)
    if cursor.at("ORDER"):
        order = order_by(cursor)
    if cursor.at_any("ROWS", "RANGE"):
        words = []
        while not cursor.at(")"):
            if cursor.token.kind is Kind.END:
                cursor.fail()
            words.append(cursor.advance().text.upper())
        frame = " ".join(words)
    cursor.expect(")")
    return Over(partition, order, frame, base)


def order_by(cursor: TokenCursor) -> tuple[OrderItem, ...]:
    """``ORDER BY a, b DESC``."""
    cursor.expect("ORDER", "BY")
    items = []
    while True:
        expression = scalar(cursor)
        descending = cursor.accept_any("ASC", "DESC") == "DESC"
        items.append(OrderItem(expression, descending))
        if not cursor.accept(","):
            return tuple(items)


def _case(cursor: TokenCursor) -> Expression:
    """CASE ... END."""
    cursor.expect("CASE")
    operand = None if cursor.at("WHEN") else scalar(cursor)
    branches = []
    while cursor.accept("WHEN"):
        when = condition(cursor)
        cursor.expect("THEN")
        branches.append((when, scalar(cursor)))
    if not branches:
        cursor.fail()
    otherwise = scalar(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END")
    return Case(operand, tuple(branches), otherwise)


def _cast(cursor: TokenCursor) -> Expression:
    """CAST(x AS type), PARSE(x AS type USING culture)."""
    function = cursor.advance().upper
    cursor.expect("(")
    operand = condition(cursor)
    cursor.expect("AS")
    sql_type = cursor.data_type(default_length=30)
    style = None
    if cursor.accept("USING"):
        style = scalar(cursor)
    cursor.expect(")")
    return Cast(function, operand, sql_type, style)


def _convert(cursor: TokenCursor) -> Expression:
    """CONVERT(type, x, style)."""
    function = cursor.advance().upper
    cursor.expect("(")
    sql_type = cursor.data_type(default_length=30)
    cursor.expect(",")
    operand = condition(cursor)
    style = scalar(cursor) if cursor.accept(",") else None
    cursor.expect(")")
    return Cast(function, operand, sql_type, style)


def argument_value(cursor: TokenCursor) -> Expression:
    """A constant, a variable, or a bare word, which is a string: what EXEC and WAITFOR take."""
    if cursor.token.kind is Kind.VARIABLE:
        name = cursor.advance().text
        return GlobalVariable(name) if name.startswith("@@") else Variable(name)
    if cursor.accept("NULL"):
        return literals.NULL
    if cursor.at_name():
        text = cursor.advance().text
        return Literal(nvarchar(max(1, len(text))), text)
    if cursor.accept("-"):
        return Unary("-", primary(cursor))
    return primary(cursor)
