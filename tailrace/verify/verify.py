"""Wires a comparison: connections to the source, its captured tables, and the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
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
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ApplicationIntent, ReadMode
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.instances import KnownCatalog, by_table, read_catalog
from tailrace_publisher.source.connection.tries import TryingConnection
from tailrace_publisher.source.log.queries import database_name
from tailrace_schemas.topics.topic_names import meant_by, told_apart

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
        NotThere: a table is not captured, or no table is.
        ColumnsRefused: the options of columns do not fit a table.
        SourceError: the server did not answer.
        SinkError: the lake cannot be read.
    """
    with comparing(publisher, sink, spark, options) as (database, shapes, comparison):
        repairs = Repairs(comparison, publisher, options.limits.wait_s)
        results: list[TableResult] = []
        for known in shapes(options.tables):
            # Its columns and capture instances may have changed while others were compared.
            now = {shape.table: shape for shape in shapes(())}
            shape = now.get(known.table, known)
            results.append(comparison.compare(shape))
            if options.repairs:
                repairs.repair(shape, results[-1])
        return Verification(database, sink.lake, results)


@contextmanager
def comparing(
    publisher: PublisherConfig,
    sink: SinkConfig,
    spark: SparkSession,
    options: VerifyOptions,
    pause: Callable[[float], object] | None = None,
) -> Iterator[tuple[str, Callable[[Sequence[str]], list[TableShape]], Comparison]]:
    """Connect for a comparison; yield the database, what lists tables, and what compares them.

    Args:
        pause: waits for some seconds between two statements.

    Raises:
        NotThere, ColumnsRefused, SourceError: as :func:`verify`.
    """
    with _connected(publisher, options) as (control, reader):
        database = database_name(control)
        shapes = partial(_shapes, publisher, control, database)
        pace = Pace(options.rows_per_s, options.core_percent, pause)
        source = SourceRows(control, reader, pace, options.limits.wait_s)
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


def _shapes(
    config: PublisherConfig, connection: Connection, database: str, asked: Sequence[str]
) -> list[TableShape]:
    known = KnownCatalog(by_function=config.source.read_mode is ReadMode.FUNCTION)
    catalog = read_catalog(connection, database, config.message_keys, known)
    tables = by_table(i for i in catalog.instances if config.tables.selects(i.table))
    if not tables:
        raise NotThere(
            f"database {database}: no table is published. Fix: enable tables for change data"
            " capture (tailrace enable), and check tables.include and tables.exclude"
        )
    chosen = set()
    for text in asked:
        meant = meant_by(text, tables)
        if len(meant) > 1:
            raise NotThere(told_apart(text, meant))
        if not meant:
            there = ", ".join(sorted(f"{name.schema}.{name.table}" for name in tables))
            raise NotThere(f"table {text} is not published: there are {there or 'none'}")
        chosen.add(meant[0])
    rules = rules_of(config.columns)
    return [
        shape_of(tables[name], config.lossless_of(name), rules)
        for name in sorted(chosen or tables, key=str)
    ]
