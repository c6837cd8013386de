"""Send a signal to the publisher, and wait until it has taken it: snapshots, pauses, stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tailrace.reading.kafka_failure import kafka_failure
from tailrace.reading.published import last_published
from tailrace.reading.table_names import splits
from tailrace.reading.terminal import shown
from tailrace.reading.topics import existing_data_topics
from tailrace.signals.outcome import outcome_of
from tailrace_publisher.checkpoint.reader import existing_topics
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.orders.request_snapshot import send_signal
from tailrace_publisher.errors import (
    CheckpointUnavailable,
    DeliveryError,
    KafkaUnavailable,
    PublisherError,
)
from tailrace_publisher.runtime import kafka_access
from tailrace_schemas.records.signals import Signal, SnapshotSignal
from tailrace_schemas.topics.topic_names import TableName, meant_by, told_apart, value_subject
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryError

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig

_PAUSE_S = 0.5
_PAUSE = threading.Event()


class SignalNotTaken(Exception):
    """The signal could not be written, was refused, or no publisher took it in time."""


def ask(
    config: PublisherConfig,
    names: Sequence[str],
    wait_s: float,
    signal_of: Callable[[tuple[str, ...]], Signal] = SnapshotSignal,
    what: str = "a new snapshot",
) -> None:
    """Send a signal about tables: by default, a request for new snapshots.

    Args:
        names: the tables, ``schema.table`` each; none where the signal is about all of them.
        wait_s: the longest wait until the publisher has taken it; 0: do not wait.
        signal_of: the signal, given the tables.

    Raises:
        SignalNotTaken: a table is not published, Kafka does not take the signal, the publisher
            refuses it, or no publisher took it up in time.
        KafkaException: the brokers do not answer or refuse.
    """
    tables = _tables(config, names) if names else []
    signal = signal_of(tuple(f"{t.schema}.{t.table}" for t in tables))
    whose = shown(", ".join(map(str, tables))) or "all tables whose snapshot is not over"
    ask_publisher(config, signal, wait_s, f"{what} of {whose}")


def ask_publisher(config: PublisherConfig, signal: Signal, wait_s: float, what: str) -> None:
    """Send a signal to the publisher as a whole.

    Args:
        what: the same in words.

    Raises:
        SignalNotTaken: for the reasons of :func:`ask`.
    """
    offset = send(config, signal.to_bytes())
    click.echo(f"Requested {what}.")
    if wait_s:
        refusals = wait_for_outcome(config, offset, wait_s)
        if refusals:
            raise SignalNotTaken(f"The publisher refused the request: {'; '.join(refusals)}")
        click.echo("The publisher has taken the request. Follow it with tailrace status.")


def _tables(config: PublisherConfig, names: Iterable[str]) -> list[TableName]:
    topics = existing_data_topics(
        config.kafka.bootstrap,
        config.topics,
        config.kafka.librdkafka_options(),
        timeout_s=config.kafka.start_timeout_s,
    )
    published = [
        table
        for table in map(config.topics.table_of, topics)
        if table is not None and table.database == config.source.database
    ]
    found: dict[str, TableName] = {}
    unknown: list[str] = []
    for name in names:
        table = (
            _only(name, published) or _registered(config, name) or _only(name, _left_out(config))
        )
        if table is None:
            unknown.append(name)
        else:
            found[name] = table
    if unknown:
        known = ", ".join(sorted(f"{t.schema}.{t.table}" for t in published)) or "none"
        raise SignalNotTaken(
            f"not published under prefix {config.prefix}: {', '.join(unknown)}; name tables as"
            f" schema.table. Published: {known}"
        )
    return list(dict.fromkeys(found.values()))


def _registered(config: PublisherConfig, name: str) -> TableName | None:
    """A table whose topic is gone: the registry still has its schemas."""
    meant = [TableName(config.source.database, *parts) for parts in splits(name)]
    try:
        with open_registry(config.registry) as registry:
            known = (t for t in meant if registry.versions(value_subject(config.topics.data(t))))
            return next(known, None)
    except (ValueError, RegistryError) as error:
        raise SignalNotTaken(f"whether {name} was published is not known: {error}") from error


def _only(name: str, tables: Iterable[TableName]) -> TableName | None:
    """The table that a name means.

    Raises:
        SignalNotTaken: it may be one of several.
    """
    meant = meant_by(name, tables)
    if len(meant) > 1:
        raise SignalNotTaken(told_apart(name, meant))
    return meant[0] if meant else None


def _left_out(config: PublisherConfig) -> list[TableName]:
    """Tables that the publisher names as not part of the cut: one may have no topic."""
    record = last_published(config)
    named = map(config.topics.table_of, [] if record is None else record.snapshotting)
    return [table for table in named if table is not None]


def send(config: PublisherConfig, signal: bytes) -> int:
    """Write a signal; returns its offset.

    Raises:
        SignalNotTaken: the brokers do not answer, or the topic does not take it.
    """
    kafka, limit_s = kafka_access(config, production_ports()), config.kafka.start_timeout_s
    topic, database = config.topics.signals, config.source.database
    try:
        existing_topics(kafka, limit_s)  # a producer cannot tell silent brokers from no topic
        return send_signal(kafka, topic, database, signal, limit_s)
    except (CheckpointUnavailable, KafkaUnavailable) as error:
        raise SignalNotTaken(str(kafka_failure(config.kafka))) from error
    except DeliveryError as error:
        raise SignalNotTaken(str(error)) from error


def wait_for_outcome(config: PublisherConfig, offset: int, wait_s: float) -> list[str]:
    """Wait until the publisher has taken the signal; return why it was refused.

    Raises:
        SignalNotTaken: nobody took it in time, or the checkpoint cannot be read.
    """
    deadline = time.monotonic() + wait_s
    try:
        with outcome_of(config, offset) as outcome:
            while (refusals := outcome.look()) is None:
                if time.monotonic() > deadline:
                    raise SignalNotTaken(
                        f"no publisher took the request within {wait_s:g} s. A publisher takes it"
                        " when it runs: the signal is stored for seven days"
                    )
                _PAUSE.wait(_PAUSE_S)
            return refusals
    except (PublisherError, RegistryError) as error:
        raise SignalNotTaken(f"requested, but the checkpoint cannot be read: {error}") from error
