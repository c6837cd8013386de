"""Explaining what was asked for, a row or a commit, for the command line and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.explain.commit import explain_commit
from tailrace.explain.row import Explanation, add_cuts, add_lake, explain
from tailrace.reading.moments import Moment
from tailrace.reading.tail import EventTail
from tailrace_service.registry.access import open_registry

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig


def explain_key_or_moment(
    config: PublisherConfig,
    lake: SinkConfig | None,
    table: tuple[str, str],
    asked: str | Moment,
    changes_max: int,
) -> Explanation:
    """Ask all stages for the row with a key, or for the first commit at or after a moment.

    Args:
        lake: of the sink; None where there is none.
        asked: the key as text, or the moment.
        changes_max: how many change rows at most.

    Raises:
        NotThere: the table is not captured, the key is none, or there is no such commit.
        SourceError: the source does not answer.
        KafkaException, TimeoutError, RegistryError: the topics could not be read.
    """
    kafka = config.kafka
    with open_registry(config.registry) as registry:
        tail = EventTail(kafka.bootstrap, config.topics, registry, kafka.librdkafka_options())
        if isinstance(asked, Moment):
            found = explain_commit(config, tail, table, asked, changes_max)
        else:
            found = explain(config, tail, table, asked, changes_max)
    if lake is not None and found.key:
        add_lake(found, lake.lake, lake.commits_path)
    elif lake is not None:
        add_cuts(found, lake.commits_path)
    return found
