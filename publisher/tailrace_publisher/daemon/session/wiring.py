"""Create a session that is ready to run.

Check the source and fence the earlier producer (init_transactions). Then read the checkpoint to its
true end, and check that the database's log continues it. Then connect the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import structlog

from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.checks.preflight import check_source
from tailrace_publisher.daemon.checks.table_problems import TableProblem, refuses_first_start
from tailrace_publisher.daemon.orders.pause import Pause
from tailrace_publisher.daemon.orders.signals import Signals, signals_refusal
from tailrace_publisher.daemon.orders.table_orders import TableOrders
from tailrace_publisher.daemon.session.capture_job_watch import CaptureWatch
from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.encoded_pages import SourceAccess
from tailrace_publisher.daemon.session.schema_changes import SchemaChanges
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.session.session import Session, SessionParts
from tailrace_publisher.daemon.session.snapshot_driver import SnapshotDriver
from tailrace_publisher.daemon.session.snapshot_modes import SnapshotModes
from tailrace_publisher.daemon.session.stream import Stream
from tailrace_publisher.daemon.start.carried_state import CarriedState
from tailrace_publisher.daemon.start.first_publish import was_published_before
from tailrace_publisher.daemon.start.opened import opened_state
from tailrace_publisher.daemon.start.start import check_held
from tailrace_publisher.daemon.status.table_sizes import TableSizes
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.renames import Renames
from tailrace_publisher.daemon.tables.switches import Switches
from tailrace_publisher.daemon.tables.table_intake import TableIntake
from tailrace_publisher.daemon.tables.table_topics import TableTopics
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.upkeep import open_upkeep
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.deliver.topic_settings import progress_settings
from tailrace_publisher.errors import PreflightError
from tailrace_publisher.options.events import OnBadEvent
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.tables import OnRename
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics, Runtime, database_topics
from tailrace_publisher.snapshot.fence import FenceSource
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pauses import Pauses
from tailrace_publisher.snapshot.snapshots import Snapshots
from tailrace_publisher.snapshot.table_reader import ChunkLimits
from tailrace_publisher.source.catalog.instances import Catalog, read_catalog
from tailrace_publisher.source.connection.tries import TryingConnection
from tailrace_publisher.source.log.queries import server_name
from tailrace_publisher.source.pages.commits_ahead import CommitsAhead
from tailrace_publisher.source.pages.page_lanes import PageLane, PageLanes
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_publisher.source.pages.page_size import PageLimit
from tailrace_schemas.records.transactional_ids import transactional_id
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


@contextmanager
def ready_session(runtime: Runtime, carried: CarriedState) -> Iterator[Session]:
    """Create a session that is ready to run; close its connections after the block.

    Args:
        carried: what outlives the session.

    Raises:
        PublisherError, RegistryError: why the session cannot be created.
    """
    config, ports = runtime.config, runtime.ports
    with ExitStack() as resources:
        control = resources.enter_context(_connection(runtime))
        problems, checked = check_source(config, control, carried.catalog)
        just_read: Catalog | None = checked
        registry = resources.enter_context(ports.registry(config.registry))
        topics = database_topics(config, ports, registry)
        if problems:
            chosen = {i.table for i in checked.instances if runtime.selects(i.table)}
            if refuses_first_start(problems, chosen) and not was_published_before(topics):
                raise PreflightError([problem.text for problem in problems])
        if carried.fencing.is_fenced:
            before = read_checkpoints(topics)
            carried.fencing.check(before.database, before.stopped)
        delivery = KafkaDelivery(topics, _delivery_options(runtime))
        resources.callback(delivery.close)
        delivery.start()
        state = opened_state(config, control, topics, carried)
        no_signals = signals_refusal(topics, delivery)
        carried.stopped.leave_out(_without_renamed(problems, state, carried, config))
        versions = RegisteredVersions(config, ports.executor, registry, carried.schemas)
        resources.callback(versions.close)

        def read(names: Mapping[int, TableName]) -> Catalog:
            nonlocal just_read  # only the first call may use it; later ones read the changes
            before, just_read = just_read, None
            known = carried.catalog
            return read_catalog(control, topics.database, config.message_keys, known, names, before)

        if state.start_lsn is not None and not config.snapshot.fills_gaps:
            check_held(read({}).instances, runtime.selects, state.start_lsn)
        intake = TableIntake(
            runtime,
            Renames(state, carried.stopped, runtime, read),
            versions,
            TableTopics(config, delivery.ensure_topics, carried.stopped),
            state,
        )
        tables = PublishedTables(runtime, intake, versions, state)
        carried.board.set_state(state)
        tables.refresh()
        failure = tables.failure()
        if failure is not None and not carried.fencing.has_checkpoint:
            raise failure  # a first start writes nothing of tables that were never published
        committer = Committer(runtime, delivery, state, carried.fencing)
        pause = Pause(runtime, state)
        signals = Signals(topics, no_signals, tables, TableOrders(tables, state, control), pause)
        resources.callback(signals.close)
        fences = FenceSource(control)
        snapshots = _snapshots(runtime, topics, fences, resources)
        time = ServerTime(control, runtime.clock, config.source.time_zone)
        lanes = _page_lanes(runtime, resources)
        warn_of_two_servers(control, lanes.lane(0).connection())
        reading_ahead = ports.executor("commits")
        commits = CommitsAhead(control, reading_ahead, partial(_blocks, runtime))
        resources.callback(commits.close)
        resources.callback(reading_ahead.shutdown)
        source = SourceAccess(control, lanes, time, commits)
        yield Session(
            runtime,
            SessionParts(
                time=time,
                tables=tables,
                stream=Stream(runtime, source, tables, committer, snapshots.observe),
                committer=committer,
                snapshots=SnapshotDriver(runtime, snapshots, tables, committer, time),
                modes=SnapshotModes(config.snapshot.mode, tables, committer, carried.once),
                changes=SchemaChanges(control, tables, delivery, state, time)
                if config.schema_changes
                else None,
                signals=signals,
                pause=pause,
                switches=Switches(control, fences, tables, state, runtime.clock),
                sizes=TableSizes(control, tables, carried.board, config.snapshot),
                watch=CaptureWatch(control, config.capture_stall_s, runtime.metrics),
                upkeep=open_upkeep(runtime, control, topics, tables, state, resources),
            ),
        )


def _page_lanes(runtime: Runtime, resources: ExitStack) -> PageLanes:
    """Create the readers of change tables; at the end, threads end before connections."""
    lanes = []
    for number in range(runtime.config.source.readers):
        executor = runtime.ports.executor(f"change-tables-{number}")
        lane = PageLane(executor, partial(_connection, runtime), partial(_blocks, runtime))
        resources.callback(lane.close)
        lanes.append(lane)
    return PageLanes(lanes)


def _connection(runtime: Runtime) -> Connection:
    """Open a connection that only reads, so its statements may be repeated.

    Raises:
        SourceError: the server did not answer.
    """
    return TryingConnection(runtime.ports.connect(runtime.config.source))


def _blocks(runtime: Runtime) -> BlockReading | None:
    """Create the reader of blocks; None if it is not wanted or not possible."""
    source = runtime.config.source
    return runtime.ports.connect_blocks(source) if source.blocks else None


def _snapshots(
    runtime: Runtime, topics: DatabaseTopics, fences: FenceSource, resources: ExitStack
) -> Snapshots:
    """Create the readers of snapshots; at the end, threads end before connections."""
    options, ports = runtime.config.snapshot, runtime.ports
    lanes = []
    for number in range(options.tables_at_once):
        lane = Lane(
            ports.executor(f"snapshot-{number}"),
            partial(_connection, runtime),
            options,
            partial(_blocks, runtime),
            topics,
        )
        resources.callback(lane.close)
        lanes.append(lane)
    return Snapshots(
        fences,
        lanes,
        ChunkLimits(PageLimit(options.chunk_rows, options.chunk_bytes), options.memory_bytes),
        options.memory_bytes,
        Pauses(runtime.config.retry_backoff_max_s, runtime.clock.monotonic),
    )


def _delivery_options(runtime: Runtime) -> DeliveryOptions:
    config = runtime.config
    return DeliveryOptions(
        transactional_id=transactional_id(config.prefix, config.source.database),
        replication_factor=config.kafka.replication_factor,
        tombstones=config.tombstones,
        commit_timeout_s=config.kafka.commit_timeout_s,
        start_timeout_s=config.kafka.start_timeout_s,
        transaction_timeout_ms=config.kafka.transaction_timeout_ms,
        queue_bytes=config.queue_bytes,
        transactions=config.transaction_metadata,
        schema_changes=config.schema_changes,
        dead_letters=config.on_bad_event is OnBadEvent.DEAD_LETTER,
        topic_settings=config.kafka.topic_settings,
        progress_settings=progress_settings(config.kafka),
        partitioner=config.kafka.partitioner,
    )


def _without_renamed(
    problems: list[TableProblem],
    state: PublisherState,
    carried: CarriedState,
    config: PublisherConfig,
) -> list[TableProblem]:
    """Return the problems without those of tables that are renamed but keep their topics."""
    if config.tables.on_rename is not OnRename.KEEP_TOPIC:
        return problems
    present = carried.catalog.source_object_ids()
    renamed = {name for object_id, name in state.published_as().items() if object_id in present}
    return [p for p in problems if not (p.is_missing and p.table in renamed)]


def warn_of_two_servers(control: Connection, bulk: Connection) -> None:
    """Warn if the two connections of a session are at different replicas.

    Reading through both is correct all the same: see SourceBehind.

    Raises:
        SourceError: a server did not answer.
    """
    names = server_name(control), server_name(bulk)
    if names[0] != names[1]:
        _log.warning(
            "connections_at_different_servers",
            control=names[0],
            bulk=names[1],
            effect="changes wait until the lagging replica has caught up",
            fix="let source.host name one replica, or a routing list without load balancing",
        )
