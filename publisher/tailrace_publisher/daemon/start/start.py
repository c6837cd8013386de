"""The start position of a first start without a snapshot: an LSN, a time, or Debezium's offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.checkpoint.connect_topic import read_connect_topic
from tailrace_publisher.checkpoint.debezium_offsets import chosen_offset, connector_offsets
from tailrace_publisher.checkpoint.java_map import NotAnOffsetsFile, read_map
from tailrace_publisher.daemon.tables.coverage import covers_from_start, oldest_of
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.errors import ConfigError, StartRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.start import StartConfig
from tailrace_publisher.ports import Connection, KafkaAccess
from tailrace_publisher.source.catalog.table_instances import by_table
from tailrace_publisher.source.log.start_lsn import at_server, map_time
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


_IGNORED: Final = "start position ignored"


def apply_start_position(
    config: PublisherConfig,
    control: Connection,
    kafka: KafkaAccess,
    newest: Lsn | None,
    state: PublisherState,
) -> None:
    """Make a first start begin where the configuration says.

    Args:
        control: connection that reads positions.
        kafka: the brokers, with Connect's offsets topic.
        newest: newest captured commit LSN; None before there is any.
        state: of a start without a checkpoint.

    Raises:
        ConfigError: a file or topic does not contain a usable offset.
        StartRefused: the changes do not reach back, or forward, to that position.
        CheckpointUnavailable: the topic could not be read in time.
        SourceError: the server did not answer.
    """
    start = config.start
    if not start.given:
        return
    if state.resnapshots_all:
        log_ignored_start(start, set(), "the checkpoint was lost: all tables get new snapshots")
        return
    if start.lsn is not None:
        found = Lsn.parse(start.lsn)
    elif start.time is not None:
        found = _of_time(control, start.time, newest, config.source.time_zone)
    else:
        found = _of_debezium(config, kafka)
    if newest is None or found > newest.increment():
        raise StartRefused(
            [
                f"publisher.start says to start at {found}, but the newest captured commit is"
                f" {newest or 'none'} (sys.fn_cdc_get_max_lsn): it is not an LSN of this database,"
                " or the capture job has not reached it"
            ]
        )
    _log.info("start_position", option=start.given[0], first_lsn=str(found), newest=str(newest))
    state.start_at(found)


def log_ignored_start(start: StartConfig, once: set[str], reason: str) -> None:
    """Log once that the configured start position is ignored.

    Args:
        once: what was already logged.
    """
    if start.given and _IGNORED not in once:
        once.add(_IGNORED)
        _log.info("start_position_ignored", option=start.given[0], reason=reason)


def check_held(
    instances: Iterable[CaptureInstance],
    selects: Callable[[TableName], bool],
    start: Lsn,
) -> None:
    """Check that every table's changes reach back to the LSN to start at.

    Raises:
        StartRefused: names each table whose changes do not, with its low watermark.
    """
    problems = []
    for name, found in by_table(instances).items():
        lows = {i.name: i.low_watermark for i in found if i.low_watermark is not None}
        if not selects(name) or not lows or covers_from_start(lows, start) is not None:
            continue
        oldest = oldest_of(lows)
        problems.append(
            f"table {name}: publisher.start requests changes from {start} on, but capture instance"
            f" {oldest} holds them from {lows[oldest]} on (sys.fn_cdc_get_min_lsn): cleanup deleted"
            " older ones, or the table was enabled later. Fix: start there or later, let such"
            " tables start with a snapshot (publisher.snapshot.mode: when_needed), or leave it out"
            " with publisher.tables.exclude"
        )
    if problems:
        raise StartRefused(problems)


def _of_time(control: Connection, time: datetime, newest: Lsn | None, zone: str | None) -> Lsn:
    local = time if time.tzinfo is None else at_server(control, time, zone)
    mapped = map_time(control, local)
    if local > mapped.now:
        raise StartRefused(
            [f"time {time.isoformat()} is in the future: the server's time is {mapped.now}"]
        )
    if mapped.before is None:
        raise StartRefused(
            [
                f"time {time.isoformat()}: the oldest commit that the database still knows"
                f" (cdc.lsn_time_mapping) ended at {mapped.begins}, the server's local time, so"
                " earlier changes may be incomplete. Fix: start later, or with a snapshot"
            ]
        )
    return mapped.first or (newest or mapped.before).increment()


def _of_debezium(config: PublisherConfig, kafka: KafkaAccess) -> Lsn:
    start = config.start
    option = start.given[0]
    where = str(start.debezium_file or start.debezium_topic)
    try:
        if start.debezium_file is not None:
            entries = read_map(_read(start.debezium_file))
        else:
            entries = read_connect_topic(kafka, where)
        offset = chosen_offset(
            connector_offsets(entries), config.source.database, start.debezium_name
        )
        lsn = offset.commit_lsn()
    except NotAnOffsetsFile as error:
        reason = f"is not the offsets file of a Kafka Connect worker: {error}"
        raise ConfigError([f"publisher.start.{option} = {where!r} {reason}"]) from error
    except ValueError as error:
        raise ConfigError([f"publisher.start.{option} = {where!r}: {error}"]) from error
    if offset.incremental is not None:
        _log.warning(
            "incremental_snapshot_unfinished",
            tables=offset.incremental,
            fix="not all of their rows are published: run tailrace snapshot for each of them",
        )
    _log.info(
        "offsets_taken_over",
        connector=offset.connector,
        commit_lsn=str(lsn),
        change_lsn=str(offset.offset.get("change_lsn")),
        effect="this transaction is published again from its beginning",
    )
    return lsn


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            [f"publisher.start.debezium_file {path}: {error.strerror}. Fix: make it readable"]
        ) from error
