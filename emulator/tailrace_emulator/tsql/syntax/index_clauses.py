"""Grammar of the options of indexes and keys.

Most of them concern how an index lies on disk, and mean nothing here. Two mean something for data:
IGNORE_DUP_KEY and DROP_EXISTING. A name that no page has is refused.

See: CREATE INDEX (Transact-SQL), relational_index_option and backward_compatible_index_option;
ALTER TABLE index_option (Transact-SQL); ALTER TABLE (Transact-SQL), rebuild_option.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_partitions as partitions
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Placement
from tailrace_emulator.tsql.syntax.tokens import Kind

_OF_OLD: Final = frozenset(
    {"PAD_INDEX", "FILLFACTOR", "SORT_IN_TEMPDB", "IGNORE_DUP_KEY", "STATISTICS_NORECOMPUTE",
     "DROP_EXISTING"}
)  # fmt: skip
"""Those that may stand without parentheses."""
_OPTIONS: Final = _OF_OLD | frozenset(
    {"STATISTICS_INCREMENTAL", "ONLINE", "RESUMABLE", "MAX_DURATION", "ALLOW_ROW_LOCKS",
     "ALLOW_PAGE_LOCKS", "OPTIMIZE_FOR_SEQUENTIAL_KEY", "MAXDOP", "DATA_COMPRESSION",
     "XML_COMPRESSION", "LOB_COMPACTION", "COMPRESS_ALL_ROW_GROUPS", "MOVE", "FILESTREAM_ON",
     "WAIT_AT_LOW_PRIORITY"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What options say of data; None where they do not."""

    ignore_dup_key: bool | None = None
    drop_existing: bool = False

    def with_option(self, name: str, *, is_on: bool) -> IndexOptions:
        """The same after one more option."""
        if name == "IGNORE_DUP_KEY":
            return replace(self, ignore_dup_key=is_on)
        if name == "DROP_EXISTING":
            return replace(self, drop_existing=is_on)
        return self


def index_tail(cursor: TokenCursor) -> tuple[Placement | None, IndexOptions]:
    """``WITH ..`` and ``ON ..`` after the columns of an index or key, in any order."""
    placement: Placement | None = None
    options = IndexOptions()
    while True:
        if at_index_options(cursor):
            options = index_options(cursor)
        elif cursor.at("FILESTREAM_ON"):
            cursor.position += 2
        elif (found := partitions.placement(cursor)) is not None:
            placement = found
        else:
            return placement, options


def at_index_options(cursor: TokenCursor) -> bool:
    """Whether WITH and options of an index come next."""
    return cursor.at("WITH") and (cursor.ahead().upper == "(" or cursor.ahead().upper in _OF_OLD)


def index_options(cursor: TokenCursor) -> IndexOptions:
    """``WITH (name = value, ..)``, or as of old: ``WITH name [= value], ..``.

    Raises:
        SqlError: 50900 for an option that no page has; 102.
    """
    cursor.expect("WITH")
    return options_in_parentheses(cursor) if cursor.at("(") else _options_of_old(cursor)


def rebuild_options(cursor: TokenCursor) -> IndexOptions:
    """``[PARTITION = ..] [WITH (..)]`` after REBUILD."""
    if cursor.accept("PARTITION"):
        cursor.expect("=")
        cursor.advance()
    return index_options(cursor) if at_index_options(cursor) else IndexOptions()


def options_in_parentheses(cursor: TokenCursor) -> IndexOptions:
    """``(name = value, ..)``; refuses what :func:`index_options` refuses."""
    options = IndexOptions()
    cursor.expect("(")
    while True:
        name = cursor.word()
        if name not in _OPTIONS:
            raise not_supported(f"the index option {name}")
        is_on = not (cursor.accept("=") and cursor.at("OFF"))
        _skip_value(cursor)
        options = options.with_option(name, is_on=is_on)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return options


def _options_of_old(cursor: TokenCursor) -> IndexOptions:
    options = IndexOptions()
    while True:
        name = cursor.word()
        if name not in _OF_OLD:
            cursor.fail()
        if cursor.accept("="):
            cursor.integer()
        options = options.with_option(name, is_on=True)
        if not cursor.accept(","):
            return options


def _skip_value(cursor: TokenCursor) -> None:
    """A value with all that may follow it: ``10 MINUTES``, ``ON (..)``, ``PAGE ON PARTITIONS``."""
    while not cursor.at_any(",", ")"):
        if cursor.token.kind is Kind.END:
            cursor.fail()
        if cursor.at("("):
            cursor.skip_parenthesised()
        else:
            cursor.advance()
