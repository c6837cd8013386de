"""SET QUOTED_IDENTIFIER and SET PARSEONLY, which take effect while a text is parsed.

https://learn.microsoft.com/sql/t-sql/statements/set-quoted-identifier-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol


class Word(Protocol):
    """A token, as far as options look at it."""

    @property
    def upper(self) -> str:
        """Upper-cased text of a word or operator, else empty."""


ON_OFF: Final = frozenset({"ON", "OFF"})
_TOGGLES: Final = frozenset(
    {"ANSI_DEFAULTS", "ANSI_NULLS", "ANSI_NULL_DFLT_OFF", "ANSI_NULL_DFLT_ON", "ANSI_PADDING",
     "ANSI_WARNINGS", "ARITHABORT", "ARITHIGNORE", "CONCAT_NULL_YIELDS_NULL",
     "CURSOR_CLOSE_ON_COMMIT", "FMTONLY", "FORCEPLAN", "IMPLICIT_TRANSACTIONS", "NOCOUNT",
     "NOEXEC", "NO_BROWSETABLE", "NUMERIC_ROUNDABORT", "PARSEONLY", "QUOTED_IDENTIFIER",
     "REMOTE_PROC_TRANSACTIONS", "XACT_ABORT"}
)  # fmt: skip
_OF_QUOTES: Final = frozenset({"QUOTED_IDENTIFIER", "ANSI_DEFAULTS"})


def sets_quotes(before: Sequence[Word]) -> bool:
    """Whether the tokens before ON or OFF are a SET that concerns double quotes."""
    return not _OF_QUOTES.isdisjoint(_options_before(before, len(before)))


def last_setting(tokens: Sequence[Word], options: frozenset[str]) -> bool | None:
    """What a text sets one of the options to at last; None when it does not."""
    found = None
    for position, token in enumerate(tokens):
        if token.upper in ON_OFF and not options.isdisjoint(_options_before(tokens, position)):
            found = token.upper == "ON"
    return found


def quotes_setting(tokens: Sequence[Word]) -> bool | None:
    """The last SET QUOTED_IDENTIFIER or ANSI_DEFAULTS of a text."""
    return last_setting(tokens, _OF_QUOTES)


def parse_only_setting(tokens: Sequence[Word]) -> bool | None:
    """The last SET PARSEONLY of a text."""
    return last_setting(tokens, frozenset({"PARSEONLY"}))


def _options_before(tokens: Sequence[Word], position: int) -> set[str]:
    """The options of ``SET a, b`` that ends at a position; none of anything else."""
    names: set[str] = set()
    position -= 1
    while position >= 0 and (tokens[position].upper in _TOGGLES or tokens[position].upper == ","):
        names.add(tokens[position].upper)
        position -= 1
    return names if position >= 0 and tokens[position].upper == "SET" else set()
