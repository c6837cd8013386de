"""T-SQL text to tokens, with the line of each: what the parser and the error messages stand on.

Written here, rather than taken from a general SQL library, for three reasons. Error 102 has to name
the token near which the grammar broke. Unknown names have to keep their spelling. END, FETCH or GO
must stay plain words until the grammar knows what they are.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.tsql.syntax.parse_time_options import ON_OFF, sets_quotes


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NATIONAL = "national"
    NUMBER = "number"
    BINARY = "binary"
    MONEY = "money"
    VARIABLE = "variable"
    OPERATOR = "operator"
    END = "end"


class Token(NamedTuple):
    """One token.

    Attributes:
        text: its value: a quoted identifier or string without quotes, else as written.
        upper: upper-cased text of a WORD or OPERATOR, else empty: what keywords are compared with.
        start: offset of its first character in the source.
        end: offset after its last character.
        line: its line, counted from 1.
    """

    kind: Kind
    text: str
    upper: str
    start: int
    end: int
    line: int


_PATTERN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*)
  | (?P<block>/\*)
  | (?P<national>[nN]'[^']*(?:''[^']*)*')
  | (?P<string>'[^']*(?:''[^']*)*')
  | (?P<bracket>\[[^\]]*(?:\]\][^\]]*)*\])
  | (?P<doubled>"[^"]*(?:""[^"]*)*")
  | (?P<binary>0[xX][0-9a-fA-F]*)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d*)?)
  | (?P<money>[$£€¥]\s*-?(?:\d+(?:\.\d*)?|\.\d+)?)
  | (?P<variable>@@?[\w@#$]*)
  | (?P<word>[^\W\d][\w@#$]*|\#\#?[\w@#$]+)
  | (?P<operator><>|<<|>>|!=|<=|>=|!<|!>|\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[-+*/%=<>(),.;~&|^:{}])
    """,
    re.VERBOSE,
)
_BLOCK_EDGE: Final = re.compile(r"/\*|\*/")


def _block_comment_end(sql: str, start: int, line: int) -> int:
    """Offset after the block comment that begins at ``start``; they nest."""
    depth = 0
    for edge in _BLOCK_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise messages.error(113, line=line)


def _unclosed(sql: str, start: int, line: int) -> SqlError:
    """The error of text that no token begins with."""
    character = sql[start]
    if character in "'nN":
        text = sql[start:].split("'", 1)[1]
        return messages.error(105, text, line=line)
    if character in '["':
        return messages.error(105, sql[start + 1 :], line=line)
    return messages.error(102, character, line=line, aborts=Aborts.BATCH)


def tokenize(sql: str, *, quoted_identifier: bool = True) -> list[Token]:
    """The tokens of ``sql``, ended by one of kind END.

    Args:
        quoted_identifier: whether "x" is a name (SET QUOTED_IDENTIFIER ON) or a string, up to the
            next SET of it.

    Raises:
        SqlError: 105 for an unclosed string, 113 for an unclosed comment, 102 for anything else
            that begins no token.
    """
    tokens: list[Token] = []
    position, line, size = 0, 1, len(sql)
    match_at = _PATTERN.match
    append = tokens.append
    while position < size:
        match = match_at(sql, position)
        if match is None:
            raise _unclosed(sql, position, line)
        group, end = match.lastgroup, match.end()
        if group == "space":
            line += sql.count("\n", position, end)
        elif group == "block":
            end = _block_comment_end(sql, position, line)
            line += sql.count("\n", position, end)
        elif group != "comment":
            text = match.group()
            start_line = line
            if group == "word":
                upper = text.upper()
                if upper in ON_OFF and sets_quotes(tokens):
                    quoted_identifier = upper == "ON"
                append(Token(Kind.WORD, text, upper, position, end, line))
            elif group == "operator":
                append(Token(Kind.OPERATOR, text, text, position, end, line))
            elif group == "variable":
                append(Token(Kind.VARIABLE, text, "", position, end, line))
            else:
                line += text.count("\n")
                kind, value = _value(str(group), text, quoted_identifier=quoted_identifier)
                append(Token(kind, value, "", position, end, start_line))
        position = end
    append(Token(Kind.END, "", "", size, size, line))
    return tokens


def _value(group: str, text: str, *, quoted_identifier: bool) -> tuple[Kind, str]:
    """Kind and unquoted text of a token that is neither word, operator nor variable."""
    if group == "string":
        return Kind.STRING, text[1:-1].replace("''", "'")
    if group == "national":
        return Kind.NATIONAL, text[2:-1].replace("''", "'")
    if group == "bracket":
        return Kind.QUOTED, text[1:-1].replace("]]", "]")
    if group == "doubled":
        kind = Kind.QUOTED if quoted_identifier else Kind.STRING
        return kind, text[1:-1].replace('""', '"')
    return Kind(group), text


RESERVED: Final = frozenset(
    {"ADD", "ALL", "ALTER", "AND", "ANY", "AS", "ASC", "AUTHORIZATION", "BACKUP", "BEGIN",
     "BETWEEN", "BREAK", "BROWSE", "BULK", "BY", "CASCADE", "CASE", "CHECK", "CHECKPOINT",
     "CLOSE", "CLUSTERED", "COALESCE", "COLLATE", "COLUMN", "COMMIT", "COMPUTE", "CONSTRAINT",
     "CONTAINS", "CONTAINSTABLE", "CONTINUE", "CONVERT", "CREATE", "CROSS", "CURRENT",
     "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURSOR", "DATABASE",
     "DBCC", "DEALLOCATE", "DECLARE", "DEFAULT", "DELETE", "DENY", "DESC", "DISK", "DISTINCT",
     "DISTRIBUTED", "DOUBLE", "DROP", "DUMP", "ELSE", "END", "ERRLVL", "ESCAPE", "EXCEPT",
     "EXEC", "EXECUTE", "EXISTS", "EXIT", "EXTERNAL", "FETCH", "FILE", "FILLFACTOR", "FOR",
     "FOREIGN", "FREETEXT", "FREETEXTTABLE", "FROM", "FULL", "FUNCTION", "GOTO", "GRANT",
     "GROUP", "HAVING", "HOLDLOCK", "IDENTITY", "IDENTITY_INSERT", "IDENTITYCOL", "IF", "IN",
     "INDEX", "INNER", "INSERT", "INTERSECT", "INTO", "IS", "JOIN", "KEY", "KILL", "LEFT",
     "LIKE", "LINENO", "LOAD", "MERGE", "NATIONAL", "NOCHECK", "NONCLUSTERED", "NOT", "NULL",
     "NULLIF", "OF", "OFF", "OFFSETS", "ON", "OPEN", "OPENDATASOURCE", "OPENQUERY", "OPENROWSET",
     "OPENXML", "OPTION", "OR", "ORDER", "OUTER", "OVER", "PERCENT", "PIVOT", "PLAN", "PRIMARY",
     "PRINT", "PROC", "PROCEDURE", "PUBLIC", "RAISERROR", "READ", "READTEXT", "RECONFIGURE",
     "REFERENCES", "REPLICATION", "RESTORE", "RESTRICT", "RETURN", "REVERT", "REVOKE", "RIGHT",
     "ROLLBACK", "ROWCOUNT", "ROWGUIDCOL", "RULE", "SAVE", "SCHEMA", "SECURITYAUDIT", "SELECT",
     "SEMANTICKEYPHRASETABLE", "SESSION_USER", "SET", "SETUSER", "SHUTDOWN", "SOME",
     "STATISTICS", "SYSTEM_USER", "TABLE", "TABLESAMPLE", "TEXTSIZE", "THEN", "TO", "TOP",
     "TRAN", "TRANSACTION", "TRIGGER", "TRUNCATE", "TRY_CONVERT", "TSEQUAL", "UNION", "UNIQUE",
     "UNPIVOT", "UPDATE", "UPDATETEXT", "USE", "USER", "VALUES", "VARYING", "VIEW", "WAITFOR",
     "WHEN", "WHERE", "WHILE", "WITH", "WITHIN", "WRITETEXT"}
)  # fmt: skip
"""Words that are never a name without quotes."""
