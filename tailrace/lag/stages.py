"""How far topics and lake are, and how long a table's newest change has waited for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tailrace_schemas.topics.topic_names import TableName

if TYPE_CHECKING:
    from tailrace.reading.lake import CommitRows
    from tailrace.settings.settings import Settings
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig


class StageUnavailable(Exception):
    """Topics or lake cannot be asked; the text names the option to look at."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How far topics or lake are: a closed LSN and the source's commit time of it."""

    closed_lsn: str
    closed_commit_ms: int | None
    left_out: frozenset[str] = frozenset()
    """Topics of tables that are not part of the cut: in their snapshot, or stopped."""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Of those, the ones that the sink stopped, and why."""
    tables: frozenset[str] | None = None
    """Paths of the source tables with rows in the lake's newest cut; None of the topics."""
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """How many records of each topic the sink could not apply."""
    published_ms: int | None = None
    """Of the topics: when the newest progress record was written."""


def lag_s(newest_lsn: str | None, newest_ms: int | None, stage: Stage | None) -> float | None:
    """Return how long a table's newest change has waited for a stage, in seconds.

    Args:
        newest_lsn: commit LSN of the newest change in the change table, None while there is none.
        stage: None while nothing was published or applied.
    """
    if stage is None:
        return None
    if newest_lsn is None or stage.closed_lsn >= newest_lsn:
        return 0.0
    if newest_ms is None or stage.closed_commit_ms is None:
        return None
    return max(0.0, (newest_ms - stage.closed_commit_ms) / 1000)


def published_stage(config: PublisherConfig) -> Stage | None:
    """How far the topics are; None while nothing is published.

    Raises:
        StageUnavailable: no broker answers, it refuses, or several shards wrote the topics.
    """
    from confluent_kafka import KafkaException

    from tailrace.reading.kafka_failure import kafka_failure
    from tailrace.reading.progress import DividedIntoShards
    from tailrace.reading.published import last_published

    try:
        record = last_published(config)
    except KafkaException as error:
        raise StageUnavailable(str(kafka_failure(config.kafka, error))) from error
    except DividedIntoShards as error:
        raise StageUnavailable(str(error)) from error
    if record is None:
        return None
    left_out = frozenset(record.snapshotting)
    return Stage(
        record.closed_lsn,
        record.closed_commit_ms,
        left_out,
        published_ms=record.published_ms,
    )


def tables_stage(commits: CommitRows, config: SinkConfig) -> Stage | None:
    """How far the lake's tables are; None while there is no cut.

    Args:
        commits: reads the commit table.

    Raises:
        StageUnavailable: it cannot be read.
    """
    from deltalake.exceptions import DeltaError

    from tailrace.reading.lake import unreadable

    try:
        newest = commits.newest()
    except (DeltaError, OSError) as error:
        told = unreadable(config, "commit table", config.commits_path, error)
        raise StageUnavailable(told) from error
    if newest is None:
        return None
    return Stage(
        newest.closed_lsn,
        newest.closed_commit_ms,
        stopped=newest.stopped,
        tables=newest.sources,
    )


def lake_stage(settings: Settings) -> Stage | None:
    """How far the lake's tables are, with the dead letters of each topic.

    Raises:
        StageUnavailable: the commit table or the dead letters cannot be read.
    """
    from deltalake.exceptions import DeltaError

    from tailrace.reading.lake import CommitRows, dead_letters, reading_options, unreadable

    config = settings.sink()
    stage = tables_stage(CommitRows.of(config), config)
    if stage is None:
        return None
    path = config.dead_letters_path
    try:
        return replace(stage, dead_letters=dead_letters(path, reading_options(config)))
    except (DeltaError, OSError) as error:
        raise StageUnavailable(unreadable(config, "dead letters", path, error)) from error


def topic_of(config: PublisherConfig, table: TableName) -> str:
    """The table's topic; empty if its name is too long for one."""
    try:
        return config.topics.data(table)
    except ValueError:
        return ""
