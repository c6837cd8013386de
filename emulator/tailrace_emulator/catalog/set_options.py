"""The SET options of a session.

They are values that are replaced, never changed. A procedure restores the options that it began
with by keeping the object. A plan is stored under the options that it was compiled for.

https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

TEXTSIZE_MAX: Final = 2_147_483_647
TEXTSIZE_DEFAULT: Final = 4096
"""Of a client that is not of ODBC's family, and of SET TEXTSIZE 0."""

_BITS: Final = {
    "implicit_transactions": 2,
    "cursor_close_on_commit": 4,
    "ansi_warnings": 8,
    "ansi_padding": 16,
    "ansi_nulls": 32,
    "arithabort": 64,
    "arithignore": 128,
    "quoted_identifier": 256,
    "nocount": 512,
    "ansi_null_dflt_on": 1024,
    "ansi_null_dflt_off": 2048,
    "concat_null_yields_null": 4096,
    "xact_abort": 16384,
}
"""Of @@OPTIONS."""


@dataclass(frozen=True, slots=True, eq=False)
class Semantics:
    """What of the options compiled statements depend on; equal settings share one object.

    Attributes:
        identity_insert: object id of the table with IDENTITY_INSERT ON.
        is_lenient: division by zero, overflow and domain errors give NULL (ANSI_WARNINGS and
            ARITHABORT are both OFF).
    """

    ansi_nulls: bool
    ansi_padding: bool
    ansi_warnings: bool
    concat_null_yields_null: bool
    quoted_identifier: bool
    datefirst: int
    dateformat: str
    language: str
    identity_insert: int | None
    is_lenient: bool

    def of_module(self, *, ansi_nulls: bool) -> Semantics:
        """The same with what a module, CHECK or computed column keeps of its creation."""
        return self if self.ansi_nulls == ansi_nulls else replace(self, ansi_nulls=ansi_nulls)


_shared = lru_cache(maxsize=256)(Semantics)


@dataclass(frozen=True, slots=True, eq=False)
class SetOptions:
    """All options; the defaults are those that ODBC's login flag requests."""

    nocount: bool = False
    fmtonly: bool = False
    noexec: bool = False
    parse_only: bool = False
    xact_abort: bool = False
    implicit_transactions: bool = False
    ansi_nulls: bool = True
    ansi_padding: bool = True
    ansi_warnings: bool = True
    ansi_null_dflt_on: bool = True
    ansi_null_dflt_off: bool = False
    arithabort: bool = False
    arithignore: bool = False
    concat_null_yields_null: bool = True
    cursor_close_on_commit: bool = False
    quoted_identifier: bool = True
    lock_timeout_ms: int = -1
    deadlock_priority: int = 0
    isolation: str = "read committed"
    datefirst: int = 7
    language: str = "us_english"
    dateformat: str = "mdy"
    datefirst_is_given: bool = False
    """By SET DATEFIRST, which stands above what a language brings; dateformat_is_given alike."""
    dateformat_is_given: bool = False
    rowcount: int = 0
    textsize: int = -1
    identity_insert: int | None = None
    """Object id of the table with IDENTITY_INSERT ON."""
    semantics: Semantics = field(init=False, repr=False)
    runs_nothing: bool = field(init=False, repr=False)
    """Statements are only looked at (FMTONLY, NOEXEC)."""

    def __post_init__(self) -> None:
        """Finds the shared object of what plans depend on."""
        semantics = _shared(
            self.ansi_nulls,
            self.ansi_padding,
            self.ansi_warnings,
            self.concat_null_yields_null,
            self.quoted_identifier,
            self.datefirst,
            self.dateformat,
            self.language,
            self.identity_insert,
            not (self.ansi_warnings or self.arithabort),
        )
        object.__setattr__(self, "semantics", semantics)
        object.__setattr__(self, "runs_nothing", self.fmtonly or self.noexec)

    def changed(self, option: str, value: Any) -> SetOptions:
        """The options with one of them changed."""
        return _changed(self, option, value)

    def of_module(self, *, ansi_nulls: bool, quoted_identifier: bool) -> SetOptions:
        """The options within a module, which keeps two of its creation."""
        if self.ansi_nulls == ansi_nulls and self.quoted_identifier == quoted_identifier:
            return self
        options = self.changed("ansi_nulls", ansi_nulls)
        return options.changed("quoted_identifier", quoted_identifier)

    @property
    def ansi_defaults(self) -> bool:
        """Whether everything that SET ANSI_DEFAULTS ON sets for a driver is ON."""
        return all(
            (self.ansi_nulls, self.ansi_padding, self.ansi_warnings, self.ansi_null_dflt_on,
             self.quoted_identifier, self.implicit_transactions, self.cursor_close_on_commit)
        )  # fmt: skip

    @property
    def bits(self) -> int:
        """@@OPTIONS."""
        return sum(bit for name, bit in _BITS.items() if getattr(self, name))


@lru_cache(maxsize=512)
def _changed(options: SetOptions, option: str, value: Any) -> SetOptions:
    """Procedures and triggers set the same few options over and over."""
    return options if getattr(options, option) == value else replace(options, **{option: value})


ODBC_OPTIONS: Final = SetOptions()
"""After a login with the flag fODBC (MS-TDS 2.2.6.4), as ODBC, OLE DB, .NET and Java send it."""

DB_LIBRARY_OPTIONS: Final = SetOptions(
    ansi_nulls=False,
    ansi_padding=False,
    ansi_warnings=False,
    ansi_null_dflt_on=False,
    concat_null_yields_null=False,
    quoted_identifier=False,
    textsize=TEXTSIZE_DEFAULT,
)
"""After a login without it: the database's own options, which are all OFF."""
