"""One session's state, as statements, system procedures and views see it.

The session owns it; batch.py and the catalog read and change it. It holds no sockets.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tailrace_emulator.catalog.set_options import ODBC_OPTIONS, SetOptions
from tailrace_emulator.security.context import SecurityContext
from tailrace_emulator.values.date_order import CURRENT

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.storage.transaction import StoreSession
    from tailrace_emulator.values.types import StorageValue


class LocalTable(Protocol):
    """A table of the session's own."""

    @property
    def table(self) -> Table:
        """Its definition."""


@dataclass(slots=True)
class SessionContext:
    """Everything a statement may know of its session."""

    engine: Engine
    database: Database
    store: StoreSession
    session_id: int
    login: str
    """The login that connected."""
    host: str = ""
    application: str = ""
    options: SetOptions = ODBC_OPTIONS
    initial_options: SetOptions = ODBC_OPTIONS
    """As the login requested them; a reset connection gets the same again."""
    rowcount: int = 0
    """@@ROWCOUNT."""
    last_error: int = 0
    """@@ERROR."""
    scope_identity: StorageValue = None
    temporary: Mapping[str, LocalTable] = field(default_factory=dict)
    """The session's #temporary tables by casefolded name."""
    takes_encoded: bool = False
    """Whether who consumes the events sends rows to a client, and so can use encoded ones."""
    session_values: dict[str, tuple[StorageValue, bool]] = field(default_factory=dict)
    """SESSION_CONTEXT: values as sql_variant, and whether they are read-only, by casefolded key."""
    login_ticks: int = 0
    """When the session began."""
    is_running: bool = False
    """Whether a request of the session's is being run."""
    transaction_name: str | None = None
    """Of the outermost BEGIN TRANSACTION."""
    context_info: bytes | None = None
    """CONTEXT_INFO."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set by an attention; statements look at it between pages and rows."""
    security: SecurityContext = field(default=None)  # type: ignore[assignment]  # set below
    """Who the session is, and what it may do."""

    def __post_init__(self) -> None:
        """A new session begins as its login; a copy for another database shares the context."""
        if self.security is None:
            self.security = SecurityContext(self.engine, self.login)  # type: ignore[unreachable]

    def read_dates(self) -> None:
        """Makes the thread read texts as dates in the session's order."""
        CURRENT.order = self.options.dateformat

    def set_option(self, option: str, value: Any) -> None:
        """Changes one of the SET options, by its attribute's name."""
        self.options = self.options.changed(option, value)

    @property
    def user(self) -> str:
        """The name of the session's user in its database."""
        token = self.security.user_or_none(self.database)
        return token.principal.name if token is not None else "guest"
