"""Constants of T-SQL text: their exact types and values.

The type of a constant decides the type of a result column, so the rules of "Constants
(Transact-SQL)" hold to the digit: ``1.50`` is numeric(3,2), an integer beyond int is numeric(n,0),
``1e0`` is float, ``N'ab'`` is nvarchar(2).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax.nodes import ColumnName, Expression, Literal, Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.tokens import Kind, Token
from tailrace_emulator.values.types import (
    FLOAT,
    INT,
    MAX,
    MONEY,
    SqlType,
    pack_decimal,
    varbinary,
)

NULL = Literal(INT, None)

_INT_MAX = 2**31 - 1
_MONEY_SCALE = 10_000


def number(token: Token) -> Literal:
    """The literal of a NUMBER token.

    Raises:
        SqlError: 1007 for more than 38 digits, 168 for a float that is too large.
    """
    text = token.text
    if "e" in text or "E" in text:
        mantissa, _, exponent = text.lower().partition("e")
        digits = exponent if exponent.lstrip("+-") else "0"
        real = float(f"{mantissa}e{digits}")
        if math.isinf(real):
            raise messages.error(168, text, 8, line=token.line)
        return Literal(FLOAT, real)
    if "." not in text:
        value = int(text)
        if value <= _INT_MAX:
            return Literal(INT, value)
        return _exact(token, str(value), 0)
    whole, _, fraction = text.partition(".")
    return _exact(token, whole.lstrip("0") + fraction, len(fraction))


def _exact(token: Token, digits: str, scale: int) -> Literal:
    """A numeric literal of those digits, of which ``scale`` follow the point."""
    precision = max(len(digits), scale, 1)
    if precision > 38:
        raise messages.error(1007, token.text, line=token.line)
    sql_type = SqlType("numeric", precision=precision, scale=scale)
    return Literal(sql_type, pack_decimal(int(digits or "0"), sql_type))


def money(token: Token) -> Literal:
    """The literal of a MONEY token."""
    text = re.sub(r"[^\d.\-]", "", token.text) or "0"
    try:
        scaled = int((Decimal(text) * _MONEY_SCALE).to_integral_value())
    except InvalidOperation as error:
        raise messages.syntax(token.text, token.line) from error
    return Literal(MONEY, pack_decimal(scaled, MONEY))


def string(token: Token) -> Literal:
    """The literal of a STRING or NATIONAL token, in no collation yet: the database's is its own."""
    size = max(1, len(token.text))
    if token.kind is Kind.NATIONAL:
        units = max(1, len(token.text.encode("utf-16-le")) // 2)
        return Literal(SqlType("nvarchar", units if units <= 4000 else MAX), token.text)
    return Literal(SqlType("varchar", size if size <= 8000 else MAX), token.text)


def binary(token: Token) -> Literal:
    """The literal of a BINARY token; an odd digit is preceded by a zero."""
    digits = token.text[2:]
    value = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    return Literal(varbinary(max(1, len(value)) if len(value) <= 8000 else MAX), value)


def money_or_pseudocolumn(cursor: TokenCursor) -> Expression:
    """``$1.5`` or ``$action``."""
    line = cursor.token.line
    name = cursor.pseudocolumn()
    if name == "$partition" and cursor.at("."):
        raise not_supported("$PARTITION (sys.partitions says how many rows each has)")
    return pseudocolumn((name,), line) if name else money(cursor.advance())


def pseudocolumn(parts: Name, line: int) -> ColumnName:
    """A column that is named by what it is.

    Raises:
        SqlError: 50900 for $ROWGUID: which column is marked ROWGUIDCOL is not kept.
    """
    if parts[-1] == "$rowguid":
        raise not_supported("$ROWGUID and ROWGUIDCOL in expressions")
    return ColumnName(parts, line)
