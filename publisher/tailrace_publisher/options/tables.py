"""Which tables are published, and what their topics are called."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

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


TopicNamesOption = Annotated[
    dict[str, str],
    Field(
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the names of these tables' topics, e.g. '{prefix}.{schema}.{table}'; the first pattern"
        " that matches counts; default '{prefix}.{database}.{schema}.{table}'. A name begins with"
        " {prefix} and tells its table: it has {schema} and {table}, unless the pattern is one"
        " table's name ('dbo\\.orders') or begins with a schema's ('dbo\\..*'). Two tables in one"
        " topic are refused. The sink reads the default names only. Another name than before"
        " begins an empty topic: its table stops until tailrace snapshot.",
    ),
]


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
