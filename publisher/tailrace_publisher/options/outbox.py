"""The options of outboxes: tables whose inserts are messages for other programs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, field_validator

from tailrace_service.options.sections import Section

_PARTS: Final = ("{prefix}", "{route}")
_BETWEEN: Final = "._-"

HeaderName = Annotated[str, Field(min_length=1, max_length=200)]


class OnUpdate(StrEnum):
    """How to handle an update of an outbox's row."""

    IGNORE = "ignore"
    STOP_TABLE = "stop-table"


class OutboxConfig(Section):
    """Messages of one outbox: where they go, and what they are.

    Column names are in any case. The defaults are those of Debezium's outbox event router.
    """

    topic: str = Field(
        default="{prefix}.outbox.{route}",
        description="Name of a message's topic: {prefix}, then one of '.', '_' and '-', and {route}"
        " once. The route's characters other than letters, digits, '-' and '_' are escaped as in"
        " other topic names. A topic that is a table's or the publisher's own stops the outbox.",
    )
    route: str = Field(
        default="aggregatetype",
        description="Column whose value chooses the topic. NULL or an empty text stops the outbox.",
    )
    key: str = Field(
        default="aggregateid",
        description="Column whose value is the record's key, as text in UTF-8 or bytes as they are."
        " Messages of a key keep their order. Without a key (NULL) they go to the first partition.",
    )
    payload: str = Field(
        default="payload",
        description="Column whose value is the record's value, unchanged: text in UTF-8, or bytes."
        " NULL is a null value.",
    )
    headers: dict[HeaderName, str] = Field(
        default_factory=lambda: {"id": "id", "eventType": "type"},
        description="Header to the column whose value it has, as text; NULL leaves it out. Each"
        " message also has the header tailrace.position: its place in the order of all changes.",
    )
    on_update: OnUpdate = Field(
        default=OnUpdate.IGNORE,
        description="How to handle an update: ignore sends no message; stop-table stops the table,"
        " naming the position. A change of the primary key is a delete and an insert to SQL Server,"
        " so it sends a message.",
    )

    @field_validator("topic")
    @classmethod
    def _names_prefix_and_route(cls, topic: str) -> str:
        text = topic
        for part in _PARTS:
            text = text.replace(part, "", 1)
        after = topic.removeprefix(_PARTS[0])
        is_usable = text.isascii() and all(c.isalnum() or c in _BETWEEN for c in text)
        if (
            not is_usable
            or after == topic
            or after[:1] not in {*_BETWEEN}
            or _PARTS[1] not in after
        ):
            raise ValueError(
                f"topic {topic!r}: write {{prefix}}, one of '.', '_' and '-', and {{route}} once;"
                " else letters, digits, '.', '_' and '-' only"
            )
        return topic

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by the option that names each."""
        named = {"route": self.route, "key": self.key, "payload": self.payload}
        return named | {f"headers.{header}": name for header, name in self.headers.items()}

    def unknown_columns(self, names: Iterable[str]) -> dict[str, str]:
        """Return the options whose column is not among the names, with that column."""
        known = {name.casefold() for name in names}
        return {o: name for o, name in self.columns.items() if name.casefold() not in known}
