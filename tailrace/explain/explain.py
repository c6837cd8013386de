"""Explaining what was asked for, a row or a commit, for the command line and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.explain.commit import explain_commit
from tailrace.explain.lake import LakeLook, add_cuts, add_lake
from tailrace.explain.row import Explanation, explain
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
    look = None if lake is None else LakeLook.at(lake)
    kafka = config.kafka
    with open_registry(config.registry) as registry:
        options = kafka.librdkafka_options()
        tail = EventTail(
            kafka.bootstrap, config.topics, registry, options, timeout_s=kafka.start_timeout_s
        )
        if isinstance(asked, Moment):
            found = explain_commit(config, tail, table, asked, changes_max)
        else:
            found = explain(config, tail, table, asked, changes_max)
    if look is not None and found.key:
        add_lake(found, look)
    elif look is not None:
        add_cuts(found, look)
    return found
