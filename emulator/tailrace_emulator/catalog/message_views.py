"""sys.messages: the catalogue of messages.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/messages-for-errors-catalog-views-sys-messages
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.messages import CATALOGUE

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_US_ENGLISH: Final = 1033


_MESSAGES: Final = Columns(
    """message_id int!, language_id smallint!, severity tinyint!, is_event_logged bit!,
 text nvarchar(2048)!"""
)


@view("sys.messages", _MESSAGES)
def _messages(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for message in CATALOGUE.values():
        yield _MESSAGES.row(
            message_id=message.number,
            language_id=_US_ENGLISH,
            severity=message.severity,
            is_event_logged=int(message.is_logged),
            text=message.text,
        )
