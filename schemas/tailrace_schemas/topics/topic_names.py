"""Names of topics and registry subjects.

- data: ``<prefix>.<database>.<schema>.<table>``, or as a template says
- schema changes: ``<prefix>.<database>.ddl``
- checkpoint: ``<prefix>.offsets``; progress: ``<prefix>.progress``; signals: ``<prefix>.signals``
- begin and end of transactions: ``<prefix>.transaction``
- messages of outboxes: ``<prefix>.outbox.<route>``, or as the option says
- events that could not be published: ``<prefix>.dead_letters``

LSNs of two databases do not compare, so every database has a prefix of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace_schemas.topics.escaped_names import topic_part, unescape
from tailrace_schemas.topics.templates import TopicTemplate

TOPIC_CHARACTERS_MAX: Final = 249
_PREFIX: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]*(?<!\.)")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A source table: database, schema and table as SQL Server spells them."""

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        """database.schema.table."""
        return f"{self.database}.{self.schema}.{self.table}"

    @property
    def in_database(self) -> str:
        """schema.table."""
        return f"{self.schema}.{self.table}"

    @property
    def path(self) -> str:
        """Its path below the lake: database/schema/table, escaped as in topic names."""
        return "/".join(map(topic_part, (self.database, self.schema, self.table)))


def meant_by(name: str, tables: Iterable[TableName]) -> list[TableName]:
    """The tables that a name may mean, ``schema.table`` or with the database before.

    A database may have dbo.orders and dbo.Orders. So the table that is spelled like the name is
    the only one; without it, all that differ in case alone.
    """
    found = [t for t in tables if name.casefold() in {str(t).casefold(), t.in_database.casefold()}]
    return [t for t in found if name in {str(t), t.in_database}] or found


def told_apart(name: str, tables: Iterable[TableName]) -> str:
    """The error text for a name that fits several tables."""
    spelled = " and ".join(sorted(table.in_database for table in tables))
    return f"table {name} may be {spelled}, which differ in case only. Fix: spell it as the source"


@dataclass(frozen=True, slots=True)
class TopicNames:
    """All topic names under one prefix.

    Attributes:
        prefix: what all of them begin with.
        templates: of data topics; the first whose pattern matches a table counts.
        database: that of the tables, where a template leaves it out.

    Raises:
        ValueError: the prefix has characters other than letters, digits, ``.``, ``_`` and ``-``. Or
            it begins with neither letter nor digit, or has a dot at its end or after another.
    """

    prefix: str
    templates: tuple[TopicTemplate, ...] = ()
    database: str = ""

    def __post_init__(self) -> None:
        """Check the prefix."""
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"topic prefix {self.prefix!r}: use letters, digits, '.', '_' and '-', starting"
                " with a letter or digit, and with no dot at the end or after another"
            )

    @property
    def offsets(self) -> str:
        """The compacted checkpoint topic."""
        return f"{self.prefix}.offsets"

    @property
    def progress(self) -> str:
        """The ledger: one record per Kafka transaction."""
        return f"{self.prefix}.progress"

    @property
    def signals(self) -> str:
        """Requests of operators to the publisher (tailrace_schemas.records.signals)."""
        return f"{self.prefix}.signals"

    @property
    def transaction(self) -> str:
        """Begin and end of source transactions (tailrace_schemas.records.transactions)."""
        return f"{self.prefix}.transaction"

    @property
    def dead_letters(self) -> str:
        """Events that could not be published (tailrace_schemas.records.dead_letters)."""
        return f"{self.prefix}.dead_letters"

    def ddl(self, database: str) -> str:
        """DDL events of a database."""
        return f"{self.prefix}.{topic_part(database)}.ddl"

    def data(self, table: TableName) -> str:
        """Change events of a table.

        Raises:
            ValueError: longer than Kafka allows; or by its template not the table's alone.
        """
        topic = self._named(table)
        if len(topic) > TOPIC_CHARACTERS_MAX:
            raise ValueError(
                f"topic name of {table} has {len(topic)} characters, Kafka allows"
                f" {TOPIC_CHARACTERS_MAX}: choose a shorter prefix, or leave the table out with"
                " tables.exclude"
            )
        if self.templates:
            self._check_own(table, topic)
        return topic

    def table_of(self, topic: str) -> TableName | None:
        """The table whose data topic this is, or None when it is not one of ours."""
        if self.templates and topic in self._beside(self.database):
            return None
        for template in self.templates:
            parts = template.table(self.prefix, self.database, topic)
            if parts is not None and self._named(TableName(*parts)) == topic:
                return TableName(*parts)
        table = self._default_table(topic)
        is_named = table is not None and (not self.templates or self._named(table) == topic)
        return table if is_named else None

    def outbox(self, template: str, route: str) -> str:
        """Messages of an outbox with one route, whatever the length.

        Args:
            template: has ``{prefix}`` and ``{route}``.
        """
        return template.replace("{prefix}", self.prefix).replace("{route}", topic_part(route))

    def is_taken(self, topic: str) -> bool:
        """Whether a topic is a table's, or one alongside the data."""
        return topic in self._beside(self.database) or self.table_of(topic) is not None

    def _named(self, table: TableName) -> str:
        """The name, whether or not it can be."""
        template = next((t for t in self.templates if t.matches(table.schema, table.table)), None)
        if template is not None:
            return template.topic(self.prefix, table.database, table.schema, table.table)
        parts = (self.prefix, *map(topic_part, (table.database, table.schema, table.table)))
        return ".".join(parts)

    def _default_table(self, topic: str) -> TableName | None:
        begin = f"{self.prefix}."
        parts = topic.removeprefix(begin).split(".")
        if not topic.startswith(begin) or len(parts) != 3:
            return None
        return TableName(*map(unescape, parts))

    def _beside(self, database: str) -> frozenset[str]:
        """The topics alongside the data."""
        own = (self.offsets, self.progress, self.signals, self.transaction, self.dead_letters)
        # Release 0.2 wrote the last one, which may still be there.
        return frozenset((*own, self.ddl(database), f"{self.prefix}.control"))

    def _check_own(self, table: TableName, topic: str) -> None:
        begin = f"topic_names: the topic of {table} would be {topic}"
        if topic in self._beside(table.database):
            raise ValueError(f"{begin}, which is the publisher's own; give it another name")
        other = self.table_of(topic)
        if other == table:
            return
        if other is not None and str(other).casefold() == str(table).casefold():
            raise ValueError(f"{begin}, and its pattern spells the table {other}: spell it alike")
        whose = "no table's" if other is None else f"also that of {other}"
        raise ValueError(
            f"{begin}, which by its form is {whose}: a topic holds one table, and its name says"
            " which; put '.' between {schema} and {table}"
        )


def database_prefix(prefix: str, name: str) -> str:
    """The prefix of one database of several that have a prefix in common.

    Args:
        name: what the database is called.
    """
    return f"{prefix}.{topic_part(name)}"


def database_path(name: str) -> str:
    """Where the endpoint of a publisher of several databases has what is one database's."""
    return f"/databases/{topic_part(name)}"


def key_subject(topic: str) -> str:
    """Registry subject of a topic's key (TopicNameStrategy)."""
    return f"{topic}-key"


def value_subject(topic: str) -> str:
    """Registry subject of a topic's value (TopicNameStrategy)."""
    return f"{topic}-value"
