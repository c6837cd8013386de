"""The version that a table resumes with, read from its checkpoint instead of the registry.

A restart with a thousand tables would query the registry for the versions of each before it reads
anything. Most tables have not changed. Then their present columns give the version that was in
force at the position, and the record has its LSN and its fingerprint. No event depends on
this alone: every version is registered again before events are encoded with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import PUBLISHED
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.source.catalog.versions import registered_form
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


class ResumedVersions:
    """The versions of tables: from the registry, or from the checkpoint if nothing changed.

    Args:
        registered: those of the registry.
        columns_of: returns the event columns that an instance gives now.
    """

    def __init__(
        self,
        registered: RegisteredVersions,
        columns_of: Callable[[CaptureInstance], tuple[SchemaColumn, ...]],
    ) -> None:
        self._registered = registered
        self._columns_of = columns_of
        self._resumed: dict[TableName, TableSchema] = {}

    def look(
        self,
        tables: Iterable[PublishedTable],
        state: PublisherState,
        ddl: Mapping[int, Sequence[Lsn]],
    ) -> None:
        """Find the tables that resume unchanged; query the registry for the others at once.

        Args:
            tables: with the instances found now.
            state: has their checkpoint records.
            ddl: LSNs of statements that changed a type, by change table's object id.

        Raises:
            RegistryError: the registry did not answer.
        """
        before, self._resumed = self._resumed, {}
        changed: list[TableName] = []
        for table in tables:
            version = self._resumed_version(table, state.of(table.name), ddl)
            if version is None:
                changed.append(table.name)
            else:
                known = before.get(table.name)  # the same object: row sizes are cached by identity
                self._resumed[table.name] = known if known == version else version
        self._registered.fetch(changed)

    def of(self, table: PublishedTable) -> list[TableSchema]:
        """Return the registered versions of a table, oldest first, as far as they are needed.

        Raises:
            RegistryError, SchemaRefused: as :meth:`RegisteredVersions.of`.
        """
        resumed = self._resumed.get(table.name)
        return self._registered.of(table.name) if resumed is None else [resumed]

    def fingerprint(self, table: PublishedTable, version: TableSchema, record: TableRecord) -> str:
        """Return the fingerprint of a version: the recorded one if the table resumed with it."""
        known = record.schema_fingerprint if self._resumed.get(table.name) is version else None
        return known or fingerprint_of(version)

    def _resumed_version(
        self, table: PublishedTable, record: TableRecord, ddl: Mapping[int, Sequence[Lsn]]
    ) -> TableSchema | None:
        if record.schema_fingerprint is None or self._registered.is_known(table.name):
            return None
        newest = table.instances.newest
        changes = ddl.get(newest.object_id, ())
        with suppress(ColumnsRefused):  # the refresh of the table raises it again
            return resumed_version(table, record, self._columns_of(newest), changes)
        return None


def fingerprint_of(version: TableSchema) -> str:
    """Return a hexadecimal digest that distinguishes a version from all others.

    It differs between releases.
    """
    as_registered = replace(version, columns=registered_form(version.columns))
    return sha256(repr(as_registered).encode()).hexdigest()[:32]


def resumed_version(
    table: PublishedTable,
    record: TableRecord,
    columns: tuple[SchemaColumn, ...],
    type_changes: Sequence[Lsn],
) -> TableSchema | None:
    """Return the version in force at the position if no later one can exist.

    Earlier versions are not needed any more. A later one would have been registered for DDL, for
    another capture instance, or for other options, which give other columns.

    Args:
        table: with the instances found now.
        record: what the checkpoint says of it.
        columns: the event columns that its newest instance gives now.
        type_changes: LSNs of DDL statements that changed a type of that instance's columns.

    Returns:
        None if the registry must be queried.
    """
    newest, lsn = table.instances.newest, record.schema_lsn
    if (
        lsn is None
        or record.schema_fingerprint is None
        or record.state not in PUBLISHED
        or len(table.instances) > 1
        or record.instances != (newest.name,)
        or any(change > lsn for change in type_changes)
    ):
        return None
    version = TableSchema(table.name, newest.name, lsn, registered_form(columns))
    return version if fingerprint_of(version) == record.schema_fingerprint else None
