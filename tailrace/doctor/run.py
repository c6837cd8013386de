"""Check every part of the configuration, also if another part does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from tailrace.doctor.access_rules import Identities
from tailrace.doctor.asking import Source
from tailrace.doctor.brokers import look_at_brokers
from tailrace.doctor.clocks import (
    look_at_registry_clock,
    look_at_server_clock,
    look_at_time_zone,
)
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace.doctor.jobs import look_at_jobs
from tailrace.doctor.large_values import LargeValues, large_values
from tailrace.doctor.login import look_at_login, look_at_primary
from tailrace.doctor.running import look_at_running
from tailrace.doctor.server import look_at_server
from tailrace.doctor.stores import look_at_awaited_lakes, look_at_lake, look_at_registry
from tailrace.doctor.tables import look_at_tables
from tailrace.doctor.traces import look_at_traces
from tailrace.reading.published import last_published
from tailrace_publisher.errors import (
    ConfigError,
    PublisherError,
    SourceError,
    TokenUnavailable,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.queries import is_cdc_enabled
from tailrace_schemas.topics.topic_names import TableName

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_SERVER: Final = Judge(Part.SERVER)


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at everything that is configured, in the order of a row's way.

    Raises:
        SettingsError: the configuration is not usable.
    """
    config = settings.publisher()
    sink = settings.sink() if settings.has_sink else None
    topics: list[str] = []
    large = LargeValues()
    try:
        with OdbcConnection(config.source) as connection:
            source = Source(
                connection,
                config.source.database,
                config.source.account,
                config.source.read_mode,
            )
            yield from _at_the_source(source, config)
            topics = _topics(source, config)
            if topics:
                large = large_values(source, config)
    except SourceError as error:
        yield _SERVER.problem(
            f"{config.source.host}:{config.source.port}",
            str(error),
            "nothing of the source could be looked at from here on",
            Fix("fix this first, then run tailrace doctor again"),
        )
    yield from look_at_brokers(config.kafka, config.topics, topics, Identities.of(config), large)
    yield from look_at_registry(config.registry)
    yield from look_at_registry_clock(config.registry)
    yield from look_at_awaited_lakes(config)
    if sink is not None:
        yield from look_at_lake(sink)
    yield from look_at_running(settings)
    yield from look_at_traces(config.tracing)


def _at_the_source(source: Source, config: PublisherConfig) -> Iterator[Finding]:
    looks: Iterable[tuple[Part, Callable[[], Iterator[Finding]]]] = (
        (Part.SERVER, lambda: look_at_server(source)),
        (Part.CAPTURE, lambda: look_at_jobs(source, _lag(config), config.cleanup)),
        (Part.TABLES, lambda: look_at_tables(source, config)),
        (Part.LOGIN, lambda: look_at_login(source, _owner_for(config))),
        (Part.LOGIN, lambda: look_at_primary(config)),
        (Part.CLOCKS, lambda: look_at_server_clock(source)),
        (Part.CLOCKS, lambda: look_at_time_zone(source, config.source.time_zone)),
    )
    for part, look in looks:
        try:
            yield from look()
        except PublisherError as error:
            if isinstance(error, SourceError) and error.retryable:
                raise
            yield Judge(part).problem(
                part.value, str(error), "the rest of this part was not looked at"
            )


def _owner_for(config: PublisherConfig) -> str:
    """Return the options for which the publisher's own login is db_owner; empty if it need not."""
    return ", ".join(config.source_changes) if config.source.primary.user is None else ""


def _lag(config: PublisherConfig) -> timedelta | None:
    """Return the lag of the topics; None if nothing is published, or if it is not known."""
    try:
        record = last_published(config)
    except (KafkaException, ConfigError, TokenUnavailable):
        return None  # which the brokers' part says
    if record is None or record.closed_commit_ms is None:
        return None
    return timedelta(seconds=max(0.0, time.time() - record.closed_commit_ms / 1000))


def _topics(source: Source, config: PublisherConfig) -> list[str]:
    """The topics of the captured tables that are selected."""
    if not is_cdc_enabled(source.connection):
        return []
    topics: set[str] = set()
    try:
        rows = catalog.change_tables(source.connection)
    except SourceError:
        return []  # which the tables' part says
    for row in rows:
        name = TableName(config.source.database, row.schema, row.table)
        if config.tables.selects(name):
            try:
                topics.add(config.topics.data(name))
            except ValueError:
                continue  # too long a name, which the tables' part says
    return sorted(topics)
