"""Which tables are published, and how their topics are named."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from pydantic import Field

from tailrace_schemas.topics.templates import TopicTemplate, is_plain_name
from tailrace_service.options.sections import TableSelection


class OnRename(StrEnum):
    """How to handle a table that was renamed after it was published."""

    STOP = "stop"
    KEEP_TOPIC = "keep_topic"


class CapturedTables(TableSelection):
    """Which tables are published: those that match include and do not match exclude.

    A table that include names plainly must be captured.
    """

    on_rename: OnRename = Field(
        default=OnRename.STOP,
        description="How to handle a published table that was renamed at the source, which is"
        " noticed when the catalog is read (at a start, and after DDL): stop stops it, with an"
        " error, because a topic under its new name would lack the earlier events; keep_topic"
        " continues with its old topic, subjects and name, which the other options use too. A table"
        " that takes over the old name starts with a snapshot.",
    )

    def plain_names(self) -> list[str]:
        """Return the include patterns that name one table; those tables must be captured."""
        return list(filter(is_plain_name, self.include))


def templates_of(names: Mapping[str, str]) -> tuple[TopicTemplate, ...]:
    """Check the option topic_names and return its templates.

    Raises:
        ValueError: names what is wrong with one of them.
    """
    return tuple(_template(pattern, template) for pattern, template in names.items())


@lru_cache(maxsize=1024)
def _template(pattern: str, template: str) -> TopicTemplate:
    """Create a template; cached, because topic names are computed table by table."""
    return TopicTemplate(pattern, template)
