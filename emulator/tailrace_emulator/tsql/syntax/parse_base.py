"""The token cursor that every grammar reads from."""

from __future__ import annotations

from enum import Enum
from typing import Final, NoReturn

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.syntax import type_names
from tailrace_emulator.tsql.syntax.labels import LabelScope
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.tokens import RESERVED, Kind, Token, tokenize
from tailrace_emulator.values.types import MAX, SqlType

_ABSENT: Final = frozenset(
    {"CONTAINS", "CONTAINSTABLE", "FREETEXT", "FREETEXTTABLE", "OPENDATASOURCE", "OPENQUERY",
     "OPENROWSET", "OPENXML", "SEMANTICKEYPHRASETABLE", "SEMANTICSIMILARITYTABLE",
     "SEMANTICSIMILARITYDETAILSTABLE"}
)  # fmt: skip
"""Words of full-text search and of other data sources, which begin what is not here."""


_PSEUDOCOLUMNS: Final = {"IDENTITYCOL": "$identity", "ROWGUIDCOL": "$rowguid"}


class Into(Enum):
    """Where INTO of a SELECT may stand."""

    HERE = "in the next SELECT"
    BEFORE = "in the first SELECT of a set operation, which is past"
    NOWHERE = "this is a subquery"


class TokenCursor:
    """Reads tokens left to right; methods are named after what they accept.

    Attributes:
        tokens: its tokens, the last of kind END.
        position: of the next token.
        labels: the labels and jumps that were read so far.
        returns_value: whether the body of a scalar function is read, where RETURN has a value of
            any type.
        into: where INTO of the SELECT that is read may stand.
    """

    def __init__(self, sql: str, *, quoted_identifier: bool = True) -> None:
        self.sql = sql
        self.tokens = tokenize(sql, quoted_identifier=quoted_identifier)
        self.position = 0
        self.labels = LabelScope()
        self.returns_value = False
        self._declared: set[str] = set()
        self.into = Into.NOWHERE

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def ahead(self, distance: int = 1) -> Token:
        """The token ``distance`` after the next."""
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Takes the next token."""
        token = self.tokens[self.position]
        if token.kind is not Kind.END:
            self.position += 1
        return token

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words or operators."""
        tokens, position = self.tokens, self.position
        for offset, word in enumerate(words):
            index = position + offset
            if index >= len(tokens) or tokens[index].upper != word:
                return False
        return True

    def at_any(self, *words: str) -> bool:
        """Whether the next token is one of these."""
        return self.tokens[self.position].upper in words and self.token.kind is not Kind.END

    def accept(self, *words: str) -> bool:
        """Takes these words if they come next."""
        if self.at(*words):
            self.position += len(words)
            return True
        return False

    def accept_any(self, *words: str) -> str | None:
        """Takes the next token if it is one of these words."""
        upper = self.token.upper
        if upper and upper in words:
            self.position += 1
            return upper
        return None

    def expect(self, *words: str) -> None:
        """Takes these words or fails with 102 or 156."""
        for word in words:
            if not self.accept(word):
                self.fail()

    def fail(self) -> NoReturn:
        """Raises the syntax error at the next token."""
        raise self.syntax_error()

    def syntax_error(self) -> SqlError:
        """102, or 156 at a keyword, near the next token; 50900 at a feature that is not here."""
        token = self.token
        if token.upper in _ABSENT and token.kind is Kind.WORD:
            return not_supported(token.upper)
        if token.kind is Kind.END:
            previous = self.tokens[max(0, self.position - 1)]
            return messages.syntax(previous.text, previous.line)
        if token.kind is Kind.WORD and token.upper in RESERVED:
            return messages.keyword_syntax(token.text, token.line)
        return messages.syntax(token.text, token.line)

    def text_between(self, start: Token, end_position: int | None = None) -> str:
        """Source from ``start`` to the end of the last token taken."""
        last = self.tokens[(self.position if end_position is None else end_position) - 1]
        return self.sql[start.start : last.end]

    def expression_between(self, start: Token) -> str:
        """The same of an expression that is kept: a string in double quotes gets single ones."""
        parts, position = [], start.start
        for token in self.tokens[: self.position]:
            is_string = token.kind is Kind.STRING and self.sql[token.start] == '"'
            if is_string and token.start >= position:
                text = token.text.replace("'", "''")
                parts += [self.sql[position : token.start], f"'{text}'"]
                position = token.end
        return "".join(parts) + self.sql[position : self.tokens[self.position - 1].end]

    # Names and numbers --------------------------------------------------------------------------

    def at_name(self) -> bool:
        """Whether the next token can be an identifier."""
        token = self.token
        return token.kind is Kind.QUOTED or (
            token.kind is Kind.WORD and token.upper not in RESERVED
        )

    def at_query(self) -> bool:
        """Whether a query follows: SELECT, or a set operation that begins with a parenthesis."""
        if self.at_any("SELECT", "WITH"):
            return True
        offset = 0
        while self.ahead(offset).upper == "(":
            offset += 1
        depth = offset
        if not depth or self.ahead(offset).upper != "SELECT":
            return False
        while depth and self.ahead(offset).kind is not Kind.END:
            text = self.ahead(offset).upper
            depth += (text == "(") - (text == ")")
            offset += 1
        return self.ahead(offset).upper in {"UNION", "EXCEPT", "INTERSECT"}

    def at_label(self) -> bool:
        """Whether ``name:`` follows."""
        return self.token.kind is Kind.WORD and self.ahead().upper == ":"

    def identifier(self) -> str:
        """One identifier."""
        if not self.at_name():
            if self.pseudocolumn():
                raise not_supported("pseudocolumns ($IDENTITY, $ROWGUID) outside of expressions")
            self.fail()
        return self.advance().text

    def pseudocolumn(self) -> str:
        """The pseudocolumn that follows (``$identity``, which older texts call IDENTITYCOL).

        It is taken; empty, and nothing is taken, when none follows.
        """
        token, following = self.token, self.ahead()
        name = _PSEUDOCOLUMNS.get(token.upper, "")
        if not name and token.kind is Kind.MONEY and token.text == "$":
            if following.kind is not Kind.WORD or token.end != following.start:
                return ""
            self.position += 1
            name = f"${following.text.lower()}"
        if name:
            self.position += 1
        return name

    def dotted_name(self) -> Name:
        """``a.b.c``; omitted parts are empty (``db..t``, ``..t``)."""
        parts = []
        while self.accept("."):
            parts.append("")
        parts.append(self.identifier())
        while self.accept("."):
            if self.at("."):
                parts.append("")
            else:
                parts.append(self.identifier_after_dot())
        return tuple(parts)

    def identifier_after_dot(self) -> str:
        """An identifier in a position where reserved words also are one (``sys.schemas``)."""
        token = self.token
        if token.kind in {Kind.WORD, Kind.QUOTED}:
            return self.advance().text
        self.fail()

    def variable(self) -> str:
        """``@x``."""
        token = self.token
        if token.kind is not Kind.VARIABLE:
            self.fail()
        return self.advance().text

    def word(self) -> str:
        """Any word, in upper case."""
        if self.token.kind is not Kind.WORD:
            self.fail()
        return self.advance().upper

    def on_or_off(self) -> bool:
        """ON or OFF."""
        word = self.accept_any("ON", "OFF")
        if word is None:
            self.fail()
        return word == "ON"

    def integer(self) -> int:
        """A whole number, with an optional sign."""
        sign = -1 if self.accept("-") else 1
        self.accept("+")
        token = self.token
        if token.kind is not Kind.NUMBER or not token.text.isdigit():
            self.fail()
        self.advance()
        return sign * int(token.text)

    def new_variable(self) -> str:
        """The name of a variable or parameter that is declared here.

        Raises:
            SqlError: 134, it was declared before: wherever a DECLARE stands, it is the batch's.
        """
        name = self.variable()
        if name.casefold() in self._declared:
            raise messages.error(134, name, line=self.token.line)
        self._declared.add(name.casefold())
        return name

    def name_list(self) -> tuple[str, ...]:
        """``(a, b)``."""
        self.expect("(")
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        self.expect(")")
        return tuple(names)

    def skip_parenthesised(self) -> None:
        """``( anything )``: options that change no result."""
        self.expect("(")
        depth = 1
        while depth:
            token = self.advance()
            if token.kind is Kind.END:
                self.fail()
            depth += (token.upper == "(") - (token.upper == ")")

    # Types --------------------------------------------------------------------------------------

    def data_type(self, default_length: int = 1) -> SqlType:
        """A system data type with its arguments.

        Raises:
            SqlError: 243 for a type that users made, or that is not there.
        """
        line, token = self.token.line, self.token
        dotted = self.ahead().text == "." and not self.at("SYS")
        word = token.kind in {Kind.WORD, Kind.QUOTED} and token.upper not in {"NATIONAL", "DOUBLE"}
        if word and (dotted or not type_names.is_system_type(token.text)) and not self.at("SYS"):
            name = self.dotted_name()[-1]
            if not type_names.is_system_type(name):
                raise type_names.not_a_system_type(name, line)
            return self._system_type(name, line, default_length)
        return self._system_type(self._type_name(), line, default_length)

    def declared_type(self) -> SqlType:
        """The type of a column, parameter or variable: a system type, or one that users made.

        The latter is a :class:`NamedType`, which is looked up where it is used.
        """
        line = self.token.line
        first = self.token
        if first.kind is Kind.WORD or first.kind is Kind.QUOTED:
            dotted = self.ahead().text == "."
            system = self.at("SYS", ".") if dotted else type_names.is_system_type(first.text)
            if not system and first.upper not in {"NATIONAL", "DOUBLE"}:
                parts = self.dotted_name()
                if not (len(parts) > 1 and type_names.is_system_type(parts[-1])):
                    return type_names.NamedType(".".join(parts), parts=parts)
                return self._system_type(parts[-1], line, 1)
        return self._system_type(self._type_name(), line, 1)

    def _system_type(self, name: str, line: int, default_length: int) -> SqlType:
        """A type with its arguments, after its name."""
        arguments: list[int] = []
        if name.lower() == "xml" and self.at("("):
            raise not_supported("xml that is typed by a schema collection")
        if self.accept("("):
            while True:
                arguments.append(MAX if self.accept("MAX") else self.integer())
                if not self.accept(","):
                    break
            self.expect(")")
        return type_names.sql_type(name, tuple(arguments), line=line, default_length=default_length)

    def _type_name(self) -> str:
        """The words of a type name."""
        if self.accept("NATIONAL"):
            word = self.advance().text.lower()
            return f"national {word} varying" if self.accept("VARYING") else f"national {word}"
        if self.accept("DOUBLE", "PRECISION"):
            return "double precision"
        if self.at("SYS", ".") or self.at("DBO", "."):
            self.position += 2
        name = self.identifier()
        if self.accept("VARYING"):
            return f"{name.lower()} varying"
        return name
