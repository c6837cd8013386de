"""Query the source: a view that is missing or denied is an answer too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_publisher.errors import PermissionMissing, SourceError
from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.ports import Connection

_NOT_THERE: Final = frozenset({195, 207, 208, 2812, 4121, 40508, 40515, 50900})
"""No such function, column, object, procedure: another version or kind of server. Azure SQL
Database refuses USE (40508) and names of other databases (40515). 50900 is the embedded server's
word for what it has not.

See: Database engine events and errors.
"""


@dataclass(slots=True)
class Source:
    """The source's database, queried leniently.

    Attributes:
        user: the login of the configuration.
        read_mode: through what it reads changes.
        hidden: the server's refusal, by what was queried.
    """

    connection: Connection
    database: str
    user: str
    read_mode: ReadMode = ReadMode.DIRECT
    hidden: dict[str, str] = field(default_factory=dict)

    def rows(self, what: str, sql: str, *parameters: object) -> list[Any] | None:
        """Return the rows of a statement; None if this server or this login does not show them.

        Args:
            what: the query in a few words, for :attr:`hidden`.

        Raises:
            SourceError: the server did not answer.
        """
        try:
            return self.connection.query(sql, *parameters)
        except PermissionMissing as error:
            self.hidden[what] = str(error)
        except SourceError as error:
            if error.number not in _NOT_THERE:
                raise
            self.hidden[what] = str(error)
        return None

    def row(self, what: str, sql: str, *parameters: object) -> Any | None:
        """The first row; None where there is none, or it may not be seen."""
        found = self.rows(what, sql, *parameters)
        return found[0] if found else None
