"""Wires a comparison: connections to the source, its captured tables, and the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.reading.change_rows import NotThere
from tailrace.verify.compare import Comparison, Limits
from tailrace.verify.pace import Pace
from tailrace.verify.repair import Repairs
from tailrace.verify.source_rows import SourceRows
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import TableShape, shape_of
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ApplicationIntent
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, read_catalog
from tailrace_publisher.source.catalog.table_instances import TableInstances, by_table
from tailrace_publisher.source.connection.tries import TryingConnection
from tailrace_publisher.source.log.queries import database_name
from tailrace_schemas.topics.topic_names import TableName, meant_by, told_apart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace_sink.options.config import SinkConfig


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How to compare.

    Attributes:
        tables: names, in any case; empty for all published tables.
        rows_per_s: bound of what is read from the source; None for no bound.
        core_percent: bound of the share of a processor of the server, up to 100.
        is_secondary: whether tables are read from a readable secondary.
        repairs: whether the publisher is asked for rows that differ.
    """

    tables: Sequence[str] = ()
    rows_per_s: int | None = None
    is_secondary: bool = False
    limits: Limits = field(default_factory=Limits)
    core_percent: float = 100.0
    repairs: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found of all tables."""

    database: str
    lake: str
    tables: Sequence[TableResult]

    @property
    def differs(self) -> bool:
        """Whether a row of any table differs."""
        return any(table.differs for table in self.tables)

    @property
    def is_proven(self) -> bool:
        """Whether every row of every table was compared, and none differs."""
        return all(table.is_proven for table in self.tables)


def verify(
    publisher: PublisherConfig, sink: SinkConfig, spark: SparkSession, options: VerifyOptions
) -> Verification:
    """Compare tables of the source with the newest cut of the lake, while both move.

    Args:
        spark: a session that reads the lake.

    Raises:
        NotThere: a table is not captured, or no table is; or the lake has no cut yet.
        SourceError: the server did not answer.
        SinkError: the lake cannot be read.
    """
    with comparing(publisher, sink, spark, options) as (database, shapes, comparison):
        repairs = Repairs(comparison, publisher, options.limits.wait_s)
        results: list[TableResult] = []
        names = shapes.names(options.tables)
        comparison.check_cut()
        for name in names:
            try:
                # Its columns and capture instances may have changed while others were compared.
                shape = shapes.of(name)
            except ColumnsRefused as error:
                results.append(TableResult(name.in_database, problem=str(error)))
                continue
            results.append(comparison.compare(shape))
            if options.repairs:
                repairs.repair(shape, results[-1])
        return Verification(database, sink.lake, results)


class PublishedShapes:
    """The published tables of a database, read again only after DDL.

    Args:
        connection: to where changes are captured.
    """

    def __init__(self, config: PublisherConfig, connection: Connection, database: str) -> None:
        self._config = config
        self._connection = connection
        self._database = database
        self._known = KnownCatalog.of(config)
        self._catalog: Catalog | None = None
        self._seen: dict[TableName, TableInstances] = {}
        self._rules = rules_of(config.columns)

    def names(self, asked: Sequence[str]) -> list[TableName]:
        """Return the named tables, sorted; without names all.

        Raises:
            NotThere: a table is not captured, or no table is.
            SourceError: the server did not answer.
        """
        tables = self._tables()
        if not tables:
            raise NotThere(
                f"database {self._database}: no table is published. Fix: enable tables for change"
                " data capture (tailrace enable), and check tables.include and tables.exclude"
            )
        chosen = set()
        for text in asked:
            meant = meant_by(text, tables)
            if len(meant) > 1:
                raise NotThere(told_apart(text, meant))
            if not meant:
                there = ", ".join(sorted(name.in_database for name in tables))
                raise NotThere(f"table {text} is not published: there are {there}")
            chosen.add(meant[0])
        return sorted(chosen or tables, key=str)

    def of(self, table: TableName) -> TableShape:
        """Return a table as it now is; as it was last seen if it is no longer published.

        Raises:
            ColumnsRefused: the options of columns do not fit it.
            SourceError: the server did not answer.
        """
        self._seen |= self._tables()
        instances = self._seen[table]
        lossless = self._config.lossless_of(instances.newest.table)
        return shape_of(instances, lossless, self._rules)

    def _tables(self) -> dict[TableName, TableInstances]:
        config = self._config
        self._catalog = read_catalog(
            self._connection,
            self._database,
            config.message_keys,
            self._known,
            before=self._catalog,
        )
        return by_table(i for i in self._catalog.instances if config.tables.selects(i.table))


@contextmanager
def comparing(
    publisher: PublisherConfig,
    sink: SinkConfig,
    spark: SparkSession,
    options: VerifyOptions,
    pause: Callable[[float], object] | None = None,
) -> Iterator[tuple[str, PublishedShapes, Comparison]]:
    """Connect for a comparison; yield the database, its tables, and what compares them.

    Args:
        pause: waits for some seconds between two statements.

    Raises:
        NotThere, SourceError: as :func:`verify`.
    """
    with _connected(publisher, options) as (control, reader):
        database = database_name(control)
        shapes = PublishedShapes(publisher, control, database)
        pace = Pace(options.rows_per_s, options.core_percent, pause)
        exempt = publisher.snapshot.exempt_policies
        source = SourceRows(control, reader, pace, options.limits.wait_s, exempt)
        yield database, shapes, Comparison(source, spark, sink, options.limits)


@contextmanager
def _connected(
    config: PublisherConfig, options: VerifyOptions
) -> Iterator[tuple[Connection, Connection]]:
    """Connect to where changes are captured, and to where tables are read."""
    connect = production_ports().connect
    with closing(TryingConnection(connect(config.source))) as control:
        if not options.is_secondary:
            yield control, control
            return
        read_only = {"application_intent": ApplicationIntent.READ_ONLY}
        with closing(
            TryingConnection(connect(config.source.model_copy(update=read_only)))
        ) as reader:
            yield control, reader
