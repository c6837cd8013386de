"""Which tables are published, and how their topics are named."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from pydantic import Field, field_validator

from tailrace_schemas.topics.templates import TopicTemplate
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import TableSelection, check_patterns, matches


class OnRename(StrEnum):
    """How to handle a table that was renamed after it was published."""

    STOP = "stop"
    KEEP_TOPIC = "keep_topic"


class SchemaChange(StrEnum):
    """How to handle a change of a captured table's columns."""

    FOLLOW = "follow"
    ROTATE = "rotate"
    IGNORE = "ignore"
    FAIL = "fail"


class DropAfter(StrEnum):
    """What a rotation waits for before it drops the older capture instance."""

    TOPICS = "topics"
    LAKE = "lake"


class PatchedTables(StrEnum):
    """Of which tables rows are re-read after a capture instance with further columns took over."""

    ALL = "all"
    NONE = "none"


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

    schema_change: SchemaChange = Field(
        default=SchemaChange.FOLLOW,
        description="How to handle added and dropped columns. follow continues with the present"
        " capture instance; an operator creates a second one, and drops the older one. rotate does"
        " both (docs/schema-changes.md): it changes the source, so it needs a login in db_owner"
        " (source.primary), and no other program may read the older instance. ignore reads no"
        " newer instance while the present one exists. fail stops the table at every change.",
    )
    schema_changes: dict[str, SchemaChange] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the schema_change of these tables. The first matching pattern counts; schema_change holds"
        " for all others.",
    )

    drop_after: DropAfter = Field(
        default=DropAfter.TOPICS,
        description="When a rotation drops the older capture instance. topics: once all of its"
        " changes are committed to the topics. lake: once the logs of all lakes hold them, too"
        " (lakes).",
    )

    patch: PatchedTables = Field(
        default=PatchedTables.ALL,
        description="Of which tables values that no change table has are re-read, after a capture"
        " instance with further columns took over, also under follow. none: rows keep NULL in a"
        " new column until their next change. A patch reads the table once, and publishes the rows"
        " that have a value in a new column as op u with source.snapshot patch. It needs a key:"
        " a table without one needs a new snapshot, which a warning says. With few such rows a"
        " statement scans for long: see source.query_timeout_s.",
    )

    @field_validator("schema_changes")
    @classmethod
    def _compiles_each(cls, modes: dict[str, SchemaChange]) -> dict[str, SchemaChange]:
        check_patterns(modes)
        return modes

    @property
    def may_rotate(self) -> bool:
        """Whether capture instances of any table are created and dropped."""
        return SchemaChange.ROTATE in (self.schema_change, *self.schema_changes.values())

    def schema_change_of(self, table: TableName) -> SchemaChange:
        """Return how a change of a table's columns is handled."""
        name = f"{table.schema}.{table.table}"
        found = (mode for pattern, mode in self.schema_changes.items() if matches([pattern], name))
        return next(found, self.schema_change)


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
