"""Grammar of expressions and conditions."""

from __future__ import annotations

from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax import literals
from emulator.tsql.syntax.nodes import (
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
    Logical,
    MethodCall,
    NextValue,
    Not,
    OrderItem,
    Over,
    Quantified,
    Query,
    ScalarQuery,
    Star,
    Unary,
    Variable,
)
from emulator.tsql.syntax.parse_base import TokenCursor
from emulator.tsql.syntax.tokens import RESERVED, Kind
from emulator.types import DATETIME, UNIQUEIDENTIFIER

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


class ExpressionParser(TokenCursor):
    """Conditions and scalars share one grammar; the compiler rejects what is out of place."""

    def query(self) -> Query:
        """A query expression; the query grammar provides it."""
        raise NotImplementedError

    def condition(self) -> Expression:
        """OR level: any expression."""
        operands = [self._conjunction()]
        while self.accept("OR"):
            operands.append(self._conjunction())
        return operands[0] if len(operands) == 1 else Logical("OR", tuple(operands))

    def _conjunction(self) -> Expression:
        """AND level."""
        operands = [self._negation()]
        while self.accept("AND"):
            operands.append(self._negation())
        return operands[0] if len(operands) == 1 else Logical("AND", tuple(operands))

    def _negation(self) -> Expression:
        """NOT level."""
        if self.accept("NOT"):
            return Not(self._negation())
        return self._predicate()

    def _predicate(self) -> Expression:
        """A scalar, or a comparison of scalars."""
        left = self.scalar()
        operator = _COMPARISONS.get(self.token.upper)
        if operator is not None:
            self.advance()
            quantifier = self.accept_any("ALL", "ANY", "SOME")
            if quantifier:
                self.expect("(")
                query = self.query()
                self.expect(")")
                return Quantified(operator, left, "ALL" if quantifier == "ALL" else "ANY", query)
            return Comparison(operator, left, self.scalar())
        if self.accept("IS"):
            negated = self.accept("NOT")
            if self.accept("DISTINCT", "FROM"):
                return DistinctFrom(left, self.scalar(), negated)
            self.expect("NULL")
            return IsNull(left, negated)
        negated = self.at("NOT") and self.ahead().upper in {"BETWEEN", "IN", "LIKE"}
        if negated:
            self.advance()
        if self.accept("BETWEEN"):
            low = self.scalar()
            self.expect("AND")
            return Between(left, low, self.scalar(), negated)
        if self.accept("IN"):
            return self._membership(left, negated=negated)
        if self.accept("LIKE"):
            pattern = self.scalar()
            escape = self.scalar() if self.accept("ESCAPE") else None
            return Like(left, pattern, escape, negated)
        return left

    def _membership(self, left: Expression, *, negated: bool) -> Expression:
        """What follows IN."""
        self.expect("(")
        if self.at_any("SELECT", "WITH"):
            query = self.query()
            self.expect(")")
            return InQuery(left, query, negated)
        items = self.expression_list()
        self.expect(")")
        return InList(left, items, negated)

    def expression_list(self) -> tuple[Expression, ...]:
        """``a, b, c``."""
        items = [self.scalar()]
        while self.accept(","):
            items.append(self.scalar())
        return tuple(items)

    def scalar(self) -> Expression:
        """Additive level: + - & | ^ from left to right."""
        left = self._product()
        while operator := self.accept_any("+", "-", "&", "|", "^"):
            left = Binary(operator, left, self._product())
        return left

    def _product(self) -> Expression:
        """* / % from left to right."""
        left = self._unary()
        while operator := self.accept_any("*", "/", "%"):
            left = Binary(operator, left, self._unary())
        return left

    def _unary(self) -> Expression:
        """A sign, a complement, or a postfix expression."""
        operator = self.accept_any("-", "+", "~")
        if operator:
            return Unary(operator, self._unary())
        expression = self._primary()
        while True:
            if self.accept("COLLATE"):
                expression = Collate(expression, self.identifier())
            elif self.at("AT", "TIME", "ZONE"):
                self.position += 3
                expression = AtTimeZone(expression, self._primary())
            elif self.at(".") and self.ahead().text in XML_METHODS and self.ahead(2).upper == "(":
                self.advance()
                expression = self._method(expression, self.advance().text)
            else:
                return expression

    def _primary(self) -> Expression:
        """A constant, variable, column, call, CASE, subquery or parenthesised expression."""
        token = self.token
        kind = token.kind
        if kind in _LITERALS:
            return _LITERALS[kind](self.advance())
        if kind is Kind.MONEY:
            return self._money_or_pseudocolumn()
        if kind is Kind.VARIABLE:
            self.advance()
            if token.text.startswith("@@"):
                return GlobalVariable(token.text)
            return Variable(token.text)
        if kind is Kind.OPERATOR:
            if token.text == "(":
                return self._parenthesised()
            if token.text == "*":
                self.advance()
                return Star()
            if token.text == "{":
                return self._escape()
            self.fail()
        if kind is Kind.WORD:
            return self._word()
        if kind is Kind.QUOTED:
            return self._name()
        self.fail()

    def _escape(self) -> Expression:
        """ODBC's escape sequences: ``{d '..'}``, ``{t '..'}``, ``{ts '..'}``, ``{fn f(..)}``."""
        self.expect("{")
        kind = self.advance().text.lower()
        found: Expression
        if kind in {"d", "t", "ts", "guid"} and self.token.kind is Kind.STRING:
            literal = literals.string(self.advance())
            found = Cast("CAST", literal, UNIQUEIDENTIFIER if kind == "guid" else DATETIME)
        elif kind == "fn":
            found = self._escaped_function()
        else:
            raise not_supported(f"the ODBC escape sequence {{{kind} ...}}")
        self.expect("}")
        return found

    def _escaped_function(self) -> Expression:
        """A function of ODBC under T-SQL's name for it."""
        line = self.token.line
        word = self.token.upper
        if word in {"LEFT", "RIGHT", "USER", "CONVERT"} or word not in _ODBC_FUNCTIONS:
            return self._primary()
        self.advance()
        arguments: tuple[Expression, ...] = ()
        if self.accept("("):
            arguments = () if self.at(")") else self._arguments()
            self.expect(")")
        name, part = _ODBC_FUNCTIONS[word]
        if part:
            arguments = (ColumnName((part,), line), *arguments)
        return Call((name,), arguments, line)

    def _money_or_pseudocolumn(self) -> Expression:
        """``$1.5`` or ``$action``."""
        token = self.advance()
        if token.text == "$" and self.token.kind is Kind.WORD and token.end == self.token.start:
            if self.at("PARTITION", "."):
                raise not_supported("$PARTITION (sys.partitions says how many rows each has)")
            return ColumnName((f"${self.advance().text.lower()}",), token.line)
        return literals.money(token)

    def _parenthesised(self) -> Expression:
        """``( condition )`` or ``( query )``."""
        self.expect("(")
        if self.at_any("SELECT", "WITH"):
            query = self.query()
            self.expect(")")
            return ScalarQuery(query)
        inner = self.condition()
        self.expect(")")
        return inner

    def _word(self) -> Expression:
        """An expression that begins with an unquoted word."""
        token = self.token
        word = token.upper
        if word == "NULL":
            self.advance()
            return literals.NULL
        if word == "CASE":
            return self._case()
        if word == "EXISTS":
            self.advance()
            self.expect("(")
            query = self.query()
            self.expect(")")
            return Exists(query)
        if word in _CASTS and self.ahead().upper == "(":
            return self._cast()
        if word in {"CONVERT", "TRY_CONVERT"}:
            return self._convert()
        if word in _BARE_FUNCTIONS and self.ahead().upper != "(":
            self.advance()
            return Call((token.text,), (), token.line)
        if word in RESERVED and not (word in _RESERVED_FUNCTIONS and self.ahead().upper == "("):
            self.fail()
        if word == "NEXT" and self.ahead().upper == "VALUE":
            return self._next_value()
        return self._name()

    def _next_value(self) -> Expression:
        """``NEXT VALUE FOR sequence [OVER (ORDER BY ..)]``."""
        line = self.token.line
        self.expect("NEXT", "VALUE", "FOR")
        name = self.dotted_name()
        return NextValue(name, line, self._over() if self.accept("OVER") else None)

    def _name(self) -> Expression:
        """A column, ``t.*`` or a function call."""
        line = self.token.line
        parts = [self.advance().text]
        while self.accept("."):
            if self.accept("*"):
                return Star(tuple(parts))
            parts.append("" if self.at(".") else self.identifier_after_dot())
        if self.at("("):
            if len(parts) > 1 and parts[-1] in XML_METHODS:
                return self._method(ColumnName(tuple(parts[:-1]), line), parts[-1])
            return self._call(tuple(parts), line)
        return ColumnName(tuple(parts), line)

    def _method(self, operand: Expression, method: str) -> Expression:
        """The arguments of a method."""
        line = self.token.line
        self.expect("(")
        arguments = () if self.at(")") else self._arguments()
        self.expect(")")
        return MethodCall(operand, method, arguments, line)

    def _call(self, name: tuple[str, ...], line: int) -> Expression:
        """The arguments and clauses of a function call."""
        self.expect("(")
        distinct = False
        arguments: tuple[Expression, ...] = ()
        if len(name) == 1 and name[0].upper() == "TRIM":
            return self._trim(line)
        if not self.at(")"):
            distinct = self.accept("DISTINCT")
            self.accept("ALL")
            arguments = self._arguments()
        self.expect(")")
        within: tuple[OrderItem, ...] = ()
        if self.at("WITHIN", "GROUP"):
            self.position += 2
            self.expect("(")
            within = self.order_by()
            self.expect(")")
        if self.at("IGNORE", "NULLS") or self.at("RESPECT", "NULLS"):
            if self.token.upper == "IGNORE":
                raise not_supported("IGNORE NULLS")
            self.position += 2
        over = self._over() if self.accept("OVER") else None
        return Call(name, arguments, line, distinct, over, within)

    def _trim(self, line: int) -> Expression:
        """``TRIM([LEADING | TRAILING | BOTH] [characters FROM] text)``."""
        side = self.accept_any("LEADING", "TRAILING", "BOTH")
        first = self.scalar()
        arguments: tuple[Expression, ...] = (first,)
        if self.accept("FROM"):
            arguments = (self.scalar(), first)
        elif side is not None:
            self.fail()
        self.expect(")")
        function = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side or "", "TRIM")
        return Call((function,), arguments, line)

    def _arguments(self) -> tuple[Expression, ...]:
        """Arguments; IIF's first is a condition, so each may be one."""
        items = [self._call_argument()]
        while self.accept(","):
            items.append(self._call_argument())
        return tuple(items)

    def _call_argument(self) -> Expression:
        """One argument; DEFAULT in a call of a user's function."""
        return DefaultMark() if self.accept("DEFAULT") else self.condition()

    def _over(self) -> Over:
        """``OVER (PARTITION BY .. ORDER BY .. ROWS ..)``, or ``OVER name``."""
        if self.at_name():
            return Over(base=self.identifier())
        return self.window()

    def window(self) -> Over:
        """``( [name] PARTITION BY .. ORDER BY .. ROWS .. )``."""
        self.expect("(")
        base = ""
        if self.at_name() and self.token.upper not in {"PARTITION", "ROWS", "RANGE"}:
            base = self.identifier()
        partition: tuple[Expression, ...] = ()
        order: tuple[OrderItem, ...] = ()
        frame = ""
        if self.accept("PARTITION", "BY"):
            partition = self.expression_list()
        if self.at("ORDER"):
            order = self.order_by()
        if self.at_any("ROWS", "RANGE"):
            words = []
            while not self.at(")"):
                if self.token.kind is Kind.END:
                    self.fail()
                words.append(self.advance().text.upper())
            frame = " ".join(words)
        self.expect(")")
        return Over(partition, order, frame, base)

    def order_by(self) -> tuple[OrderItem, ...]:
        """``ORDER BY a, b DESC``."""
        self.expect("ORDER", "BY")
        items = []
        while True:
            expression = self.scalar()
            descending = self.accept_any("ASC", "DESC") == "DESC"
            items.append(OrderItem(expression, descending))
            if not self.accept(","):
                return tuple(items)

    def _case(self) -> Expression:
        """CASE ... END."""
        self.expect("CASE")
        operand = None if self.at("WHEN") else self.scalar()
        branches = []
        while self.accept("WHEN"):
            when = self.condition()
            self.expect("THEN")
            branches.append((when, self.scalar()))
        if not branches:
            self.fail()
        otherwise = self.scalar() if self.accept("ELSE") else None
        self.expect("END")
        return Case(operand, tuple(branches), otherwise)

    def _cast(self) -> Expression:
        """CAST(x AS type), PARSE(x AS type USING culture)."""
        function = self.advance().upper
        self.expect("(")
        operand = self.condition()
        self.expect("AS")
        sql_type = self.data_type(default_length=30)
        style = None
        if self.accept("USING"):
            style = self.scalar()
        self.expect(")")
        return Cast(function, operand, sql_type, style)

    def _convert(self) -> Expression:
        """CONVERT(type, x, style)."""
        function = self.advance().upper
        self.expect("(")
        sql_type = self.data_type(default_length=30)
        self.expect(",")
        operand = self.condition()
        style = self.scalar() if self.accept(",") else None
        self.expect(")")
        return Cast(function, operand, sql_type, style)
