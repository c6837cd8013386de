"""Tables that have another name than the one under which they were published.

A table keeps its object id when it is renamed, and so do its capture instances. Under its new name
it would get a new topic, whose subscribers would take the changes from now on for the whole table.
So the object id is kept in the checkpoint with the name, and a table that comes under another name
stops, or goes on under the old one: the option ``tables.on_rename``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.config import OnRename
from tailrace_publisher.daemon.book import Book, SourceTable
from tailrace_publisher.errors import TableRenamed
from tailrace_schemas.topics import TableName

_log = structlog.get_logger(__name__)


class Renames:
    """Compares the names of tables with those that the checkpoint has.

    Args:
        book: what is out, of which table, under which name.
        policy: what becomes of a renamed table.
    """

    def __init__(self, book: Book, policy: OnRename) -> None:
        self._book = book
        self._policy = policy
        self._told: set[TableName] = set()

    def names(self) -> dict[int, TableName]:
        """The names that tables keep, by object id."""
        return self._book.published_as() if self._policy is OnRename.KEEP_TOPIC else {}

    def tell(self, instances: Iterable[CaptureInstance]) -> None:
        """Tell, once, of tables that go on under their old name."""
        for instance in instances:
            if instance.renamed_to is not None and instance.renamed_to not in self._told:
                self._told.add(instance.renamed_to)
                _log.warning(
                    "table_renamed",
                    table=str(instance.renamed_to),
                    was=str(instance.table),
                    effect="it goes on under the topic, the subjects and the name that it had",
                )

    def check(self, name: TableName, instances: Sequence[CaptureInstance]) -> None:
        """Check that a table is not published under another name.

        Raises:
            TableRenamed: it is.
        """
        published = self._book.published_as()
        for instance in instances:
            was = published.get(instance.source_object_id, name)
            if was != name:
                raise TableRenamed(was, name)

    def whose(self, missing: TableName, instances: Iterable[CaptureInstance]) -> TableName | None:
        """What a table that is not found any more is called now; None when it is gone."""
        published = self._book.published_as()
        for instance in instances:
            if published.get(instance.source_object_id) == missing != instance.table:
                return instance.table
        return None

    def note(self, instances: Iterable[CaptureInstance]) -> None:
        """Keep with the checkpoint of each instance of which table it is."""
        for instance in instances:
            state = self._book.instances.get(instance.name)
            if state is not None:
                source = SourceTable(instance.source_object_id, instance.table)
                self._book.set_instance(instance.name, replace(state, source=source))
