"""The tables that are published: their capture instances, versions, topics and encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.book import Book, InstanceState
from tailrace_publisher.daemon.kept import Kept
from tailrace_publisher.daemon.registered import RegisteredVersions
from tailrace_publisher.deliver.topics import TopicSpec, data_spec
from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.errors import (
    DeliveryRejected,
    PositionExpired,
    TableFailed,
    TopicCompacted,
)
from tailrace_publisher.one_table import of_one_table
from tailrace_publisher.ports import Connection, Registry
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot_options import SnapshotMode
from tailrace_publisher.source.instances import Catalog, by_table, choose_instance, read_catalog
from tailrace_publisher.source.loss import check_not_expired, check_place_kept
from tailrace_publisher.source.queries import CatalogState
from tailrace_publisher.source.versions import current_columns, timeline, version_at
from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.topics import TableName

_log = structlog.get_logger(__name__)

_HAS_BEGUN: Final = frozenset({SnapshotState.RUNNING, SnapshotState.DONE})
_TO_BE_READ: Final = frozenset({SnapshotState.PENDING, SnapshotState.RUNNING})


@dataclass(slots=True)
class PublishedTable:
    """A table with everything that its rows need.

    Attributes:
        name: the table.
        topic: where its events go.
        instances: its capture instances, oldest first.
        versions: per recognised capture instance its schema versions, oldest first; empty when the
            table cannot go on.
        is_stopped: whether it cannot go on.
        object_ids: of the change tables of its instances when it was last taken in: an instance
            that was disabled and made again under its name has another one.
    """

    name: TableName
    topic: str
    instances: list[CaptureInstance]
    versions: dict[str, tuple[TableSchema, ...]] = field(default_factory=dict)
    is_stopped: bool = False
    object_ids: dict[str, int] = field(default_factory=dict)

    @property
    def recognised(self) -> list[CaptureInstance]:
        """The instances that the capture process has come to, oldest first."""
        return [instance for instance in self.instances if instance.low_watermark is not None]


@dataclass(frozen=True, slots=True)
class Reading:
    """From where a table is read in a window.

    Attributes:
        table: the table.
        instance: the capture instance.
        schema: the version in force.
        covers_from: LSN from which on the instance holds the table's changes.
    """

    table: PublishedTable
    instance: CaptureInstance
    schema: TableSchema
    covers_from: Lsn


class PublishedTables:
    """All tables that the configuration selects and CDC captures.

    Args:
        runtime: what all parts share.
        connection: where the catalog is read.
        registry: holds the versions.
        ensure_topics: creates topics.
        book: what is out.
        kept: what was known before: tables that cannot go on, the catalog, registered schemas.
    """

    def __init__(
        self,
        runtime: Runtime,
        connection: Connection,
        registry: Registry,
        ensure_topics: Callable[[list[TopicSpec]], None],
        book: Book,
        kept: Kept,
    ) -> None:
        config = runtime.config
        self._config = config
        self._stopped = kept.stopped
        self._known = kept.catalog
        self._connection = connection
        self._ensure_topics = ensure_topics
        self._book = book
        self._metrics = runtime.metrics
        self._versions = RegisteredVersions(runtime, registry, kept.schemas)
        self._lossless = {
            name.casefold(): columns for name, columns in config.lossless_columns.items()
        }
        self._tables: dict[TableName, PublishedTable] = {}
        self.state: CatalogState | None = None

    def __iter__(self) -> Iterator[PublishedTable]:
        return iter(self._tables.values())

    def refresh(self) -> None:
        """Read the catalog again and take in what is new.

        Raises:
            PublisherError: no table can go on; that of the first.
            SourceError, RegistryError, DeliveryError: a part did not answer or refused.
        """
        catalog = read_catalog(
            self._connection,
            self._config.source.database,
            self._config.message_keys,
            self._known,
        )
        found = {
            name: instances
            for name, instances in by_table(catalog.instances).items()
            if self._config.tables.selects(name)
        }
        self._notice_gone(found)
        topics = self._topics_of(found)
        self._make_topics(
            {
                name: data_spec(
                    topic,
                    self._config.kafka,
                    holds_events=any(self._book.follows(i.name) for i in found[name]),
                )
                for name, topic in topics.items()
                if name not in self._tables
            }
        )
        for name, topic in topics.items():
            table = self._tables.setdefault(name, PublishedTable(name, topic, found[name]))
            table.instances = found[name]
        self._versions.fetch(
            topic for name, topic in topics.items() if self._stopped.error_of(name) is None
        )
        for name in topics:
            self._take_in_or_stop(self._tables[name], catalog)
        self._register_or_stop()
        if self._tables and all(table.is_stopped for table in self._tables.values()):
            raise self._stopped.fail(self._tables)
        self._forget_unread()
        self.state = catalog.state
        self._metrics.snapshotting.set(len(self.snapshotting()))

    def find(self, name: str) -> PublishedTable | None:
        """The table with that name, ``schema.table`` or with the database before, in any case."""
        wanted = name.casefold()
        for table in self._tables.values():
            full = str(table.name).casefold()
            if wanted in {full, full.removeprefix(f"{table.name.database}.".casefold())}:
                return table
        return None

    def begin_again(self, table: PublishedTable) -> None:
        """Take a new snapshot of a table: of one that goes on, or of one that was stopped.

        Its topic is made anew should it be gone: with the snapshot nothing of the table is missing.

        Raises:
            TableFailed: its topic is refused.
            PublisherError: as :meth:`refresh`.
        """
        if table.is_stopped:
            self._stopped.forgive(table.name)
            del self._tables[table.name]
            self.refresh()
            table = self._tables.get(table.name, table)
            if table.is_stopped:
                return  # for what keeps it from going on, which was told
        else:
            try:
                self._ensure_topics([data_spec(table.topic, self._config.kafka)])
            except DeliveryRejected as error:
                raise TableFailed(table.name, error) from error
        if not table.versions or self.snapshot_of(table).state in _TO_BE_READ:
            _log.info("snapshot_running_already", table=str(table.name))
            return
        _log.info("snapshot_requested", table=str(table.name))
        self.set_snapshot(table, SnapshotProgress(SnapshotState.PENDING))

    def _topics_of(self, found: Iterable[TableName]) -> dict[TableName, str]:
        """The topic of each table that can have one."""
        topics: dict[TableName, str] = {}
        for name in found:
            try:
                topics[name] = self._config.topics.data(name)
            except ValueError as error:
                self._stopped.miss(name, str(error))
            else:
                self._stopped.found(name)
        return topics

    def _make_topics(self, new: dict[TableName, TopicSpec]) -> None:
        """Create the topics of new tables; one that is refused for good stops its table alone."""
        if not new:
            return
        try:
            self._ensure_topics(list(new.values()))
        except TopicCompacted as error:
            of_topic = {spec.name: name for name, spec in new.items()}
            self._stopped.add(of_topic[error.topic], error)
            self._make_topics({n: s for n, s in new.items() if s.name != error.topic})
        except DeliveryRejected as error:
            if len(new) == 1:
                self._stopped.add(next(iter(new)), error)
                return
            for name, spec in new.items():
                self._make_topics({name: spec})

    def _notice_gone(self, found: dict[TableName, list[CaptureInstance]]) -> None:
        for name in [name for name in self._tables if name not in found]:
            self._stopped.miss(
                name, "its capture instances are gone (sys.sp_cdc_disable_table or DROP TABLE)"
            )
            del self._tables[name]
        self._stopped.miss_all_but(found)

    def _forget_unread(self) -> None:
        """Forget instances that nothing is read from: replaced, disabled, or left out now."""
        for name in sorted(self._book.instances.keys() - self._read_names()):
            _log.warning(
                "capture_instance_left_behind",
                capture_instance=name,
                reason="it is gone, replaced by a newer one, or left out by tables.exclude",
            )
            self._book.forget(name)

    def _read_names(self) -> set[str]:
        """Names of all instances of the tables that are published."""
        return {i.name for table in self._tables.values() for i in table.instances}

    def _take_in_or_stop(self, table: PublishedTable, catalog: Catalog) -> None:
        """Take a table in; what it cannot go on for stops it alone, or has it begin again."""
        cause = self._stopped.error_of(table.name) or self._taken_in(table, catalog)
        if cause is not None and self._stopped.is_taken_up(cause):
            if not table.recognised:
                # The error stays noted, so the table is part of no cut until it can begin again.
                _log.info("capture_instance_not_ready", table=str(table.name))
                table.versions.clear()
                return
            cause = self._taken_in(table, catalog, anew=True)
        if cause is None:
            return
        self._stop(table)

    def _register_or_stop(self) -> None:
        """Register the newest versions, and make their encoders; tables that are refused stop."""
        tables = {table.topic: table for table in self._tables.values() if table.versions}
        refused = self._versions.register(
            {
                topic: [versions[-1] for versions in table.versions.values()]
                for topic, table in tables.items()
            }
        )
        for topic, error in refused.items():
            self._stopped.add(error.table, error.cause)
            self._stop(tables[topic])

    def _stop(self, table: PublishedTable) -> None:
        self._stopped.stop(self._book, table.name, table.instances)
        table.versions.clear()
        table.is_stopped = True

    def _taken_in(
        self, table: PublishedTable, catalog: Catalog, *, anew: bool = False
    ) -> Exception | None:
        """Take a table in; gives what it cannot go on for, which is noted.

        Args:
            table: the table.
            catalog: what was found of it.
            anew: whether it begins again, wherever it was.
        """
        try:
            with of_one_table(table.name, "taking in its capture instances and schema versions"):
                if anew:
                    self._forget_gone(table)
                    self._stopped.take_up(self._book, table.name, table.recognised)
                self._take_in(table, catalog)
        except TableFailed as error:
            self._stopped.add(table.name, error.cause)
            return error.cause
        return None

    def _take_in(self, table: PublishedTable, catalog: Catalog) -> None:
        recognised = table.recognised
        registered = self._versions.of_topic(table.topic)
        known = self._known_instances(table, registered)
        self._forget_made_again(table)
        if any(state.snapshot.state is SnapshotState.STOPPED for state in known.values()):
            self._stopped.take_up(self._book, table.name, recognised)
        else:
            self._check_place(table, known)
        table.versions.clear()
        table.object_ids = {instance.name: instance.object_id for instance in table.instances}
        if not recognised:
            _log.info("capture_instance_not_ready", table=str(table.name))
            return
        self._enter_in_book(table, recognised, known)
        first = first_lsn_after(self._book.position)
        lossless = self._lossless.get(f"{table.name.schema}.{table.name.table}".casefold(), ())
        for instance in recognised:
            table.versions[instance.name] = timeline(
                instance,
                current_columns(instance, lossless),
                [row.lsn for row in catalog.ddl.get(instance.object_id, ())],
                [version for version in registered if version.capture_instance == instance.name],
                max(first, self._book.instances[instance.name].covers_from),
            )

    def _check_place(self, table: PublishedTable, known: dict[str, InstanceState]) -> None:
        """Check that a table that is followed has an instance that holds what comes next.

        Raises:
            PositionExpired: it has none; the instance that held it was disabled.
        """
        states = {state.snapshot.state for state in known.values()}
        covers = {
            instance.name: self._book.instances[instance.name].covers_from
            if instance.name in self._book.instances
            else start
            for instance in table.instances
            if (start := instance.low_watermark) is not None
        }
        check_place_kept(
            first_lsn_after(self._book.position).decrement(),
            {name: state.covers_from for name, state in known.items()},
            covers,
            has_begun=bool(states & _HAS_BEGUN),
            may_begin=states == {SnapshotState.PENDING},
        )

    def _enter_in_book(
        self,
        table: PublishedTable,
        recognised: list[CaptureInstance],
        known: dict[str, InstanceState],
    ) -> None:
        """Give every recognised instance a state: a new table's, or that of the one before it."""
        for instance in recognised:
            start = instance.low_watermark
            if instance.name in self._book.instances or start is None:
                continue
            if known:
                snapshot = known[max(known, key=lambda name: known[name].covers_from)].snapshot
            else:
                initial = (
                    self._book.reads_all_anew or self._config.snapshot.mode is SnapshotMode.INITIAL
                )
                snapshot = SnapshotProgress(
                    SnapshotState.PENDING if initial else SnapshotState.SKIPPED
                )
                if not instance.key:
                    _log.warning(
                        "table_without_key",
                        table=str(table.name),
                        effect="its events have a null key and go to one partition",
                        fix="name its key columns in message_keys",
                    )
            _log.info(
                "capture_instance_found",
                table=str(table.name),
                capture_instance=instance.name,
                covers_from=str(start),
                snapshot=snapshot.state.value,
            )
            self._book.set_instance(instance.name, InstanceState(start, None, snapshot))

    def _known_instances(
        self, table: PublishedTable, registered: list[TableSchema]
    ) -> dict[str, InstanceState]:
        """State of the table's instances, present or gone, that have one."""
        states = self._book.instances
        present = {instance.name for instance in table.instances} & states.keys()
        gone = {version.capture_instance for version in registered} & states.keys() - present
        if gone:
            gone -= self._read_names()  # another table's by now
        return {name: states[name] for name in present | gone}

    def _forget_gone(self, table: PublishedTable) -> None:
        """Forget a table's instances that are gone: it does not go on from where they were."""
        present = {instance.name for instance in table.instances}
        for name in self._known_instances(table, self._versions.of_topic(table.topic)):
            if name not in present:
                self._book.forget(name)

    def _forget_made_again(self, table: PublishedTable) -> None:
        """Forget instances that are others now: disabled, and made again under their name."""
        for instance in table.instances:
            before = table.object_ids.get(instance.name, instance.object_id)
            if before != instance.object_id and instance.name in self._book.instances:
                self._book.forget(instance.name)

    def encoder(self, table: PublishedTable, schema: TableSchema) -> EnvelopeEncoder:
        """The encoder of a version; its schemas are registered the first time.

        Raises:
            RegistryError, SchemaRefused, UnsupportedType: as :meth:`RegisteredVersions.encoder`.
        """
        return self._versions.encoder(table.topic, schema)

    def newer_covers_from(self) -> list[Lsn]:
        """LSNs from which on newer capture instances hold their tables' changes."""
        return [
            self._book.instances[instance.name].covers_from
            for table in self._tables.values()
            if len(table.versions) > 1
            for instance in table.instances[1:]
            if instance.name in table.versions
        ]

    def schema_lsns(self) -> list[Lsn]:
        """LSNs at which a version of a capture instance begins."""
        return [
            version.schema_lsn
            for table in self._tables.values()
            for versions in table.versions.values()
            for version in versions
        ]

    def readings(self, lsn: Lsn) -> list[Reading]:
        """From where each table's changes of a commit are read."""
        readings: list[Reading] = []
        for table in self._tables.values():
            if table.is_stopped:
                continue
            starts = {name: self._book.instances[name].covers_from for name in table.versions}
            instance = choose_instance(table.instances, starts, lsn)
            if instance is not None:
                schema = version_at(table.versions[instance.name], lsn)
                readings.append(Reading(table, instance, schema, starts[instance.name]))
        return readings

    def check_not_expired(self, readings: Iterable[Reading], state: CatalogState) -> None:
        """Check that no change table lost rows that are still needed.

        Raises:
            TableFailed: for a table that did, with PositionExpired as its cause.
            CaptureInstanceGone: names the instance.
        """
        first = first_lsn_after(self._book.position)
        for reading in readings:
            minimum = state.low_watermarks.get((reading.instance.name, reading.instance.object_id))
            try:
                check_not_expired(reading.instance.name, max(first, reading.covers_from), minimum)
            except PositionExpired as error:
                raise TableFailed(reading.table.name, error) from error

    def snapshotting(self) -> list[PublishedTable]:
        """Tables that are not part of the cut: their snapshot is not over, or they cannot go on."""
        return [
            table
            for table in self._tables.values()
            if table.is_stopped
            or self._stopped.error_of(table.name) is not None
            or not all(self._book.instances[name].snapshot.is_over for name in table.versions)
        ]

    def set_snapshot(self, table: PublishedTable, snapshot: SnapshotProgress) -> None:
        """Keep how far a table's snapshot is, with all of its instances."""
        for name in table.versions:
            state = self._book.instances[name]
            self._book.set_instance(name, replace(state, snapshot=snapshot))
        self._metrics.snapshotting.set(len(self.snapshotting()))

    def snapshot_of(self, table: PublishedTable) -> SnapshotProgress:
        """How far a table's snapshot is."""
        return self._book.instances[next(iter(table.versions))].snapshot
