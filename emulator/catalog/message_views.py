"""sys.messages: the catalogue of messages.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/messages-for-errors-catalog-views-sys-messages
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.registry import Row, view
from emulator.messages import CATALOGUE

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database

_US_ENGLISH: Final = 1033


@view(
    "sys.messages",
    """message_id int!, language_id smallint!, severity tinyint!, is_event_logged bit!,
 text nvarchar(2048)!""",
)
def _messages(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for message in CATALOGUE.values():
        yield (
            *(message.number, _US_ENGLISH, message.severity, int(message.is_logged)),
            message.text,
        )
