"""Which tables are published, and what their topics are called."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from pydantic import Field

from tailrace_schemas.topics.templates import TopicTemplate, is_plain_name
from tailrace_service.options.sections import TableSelection


class OnRename(StrEnum):
    """What becomes of a table that has another name than the one it was published under."""

    STOP = "stop"
    KEEP_TOPIC = "keep_topic"


class CapturedTables(TableSelection):
    """Which tables are published: those that match include and do not match exclude.

    A pattern of include that is a plain name must be captured.
    """

    on_rename: OnRename = Field(
        default=OnRename.STOP,
        description="What becomes of a published table that was renamed at the source, which is"
        " noticed when the catalog is read (at a start, and after DDL): stop (default) leaves it"
        " out, loudly, because a topic under its new name would begin in the middle; keep_topic"
        " goes on under the topic, the subjects and the name that it had, by which the other"
        " options mean it, too. A table that takes over the old name begins with a snapshot.",
    )

    def plain_names(self) -> list[str]:
        """The include patterns that name one table: those tables must be captured."""
        return list(filter(is_plain_name, self.include))


def templates_of(names: Mapping[str, str]) -> tuple[TopicTemplate, ...]:
    """The option topic_names, checked.

    Raises:
        ValueError: what is wrong with one of them.
    """
    return tuple(_template(pattern, template) for pattern, template in names.items())


@lru_cache(maxsize=1024)
def _template(pattern: str, template: str) -> TopicTemplate:
    """Checked once: the names of a configuration's topics are asked for table by table."""
    return TopicTemplate(pattern, template)
