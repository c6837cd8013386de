"""``tailrace accept-checkpoint-loss``: start again after the checkpoint is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tailrace.signals.request import SignalNotTaken, send
from tailrace_publisher.checkpoint.published import newest_published
from tailrace_publisher.checkpoint.reader import existing_topics, read_checkpoints
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.deliver.topics import TopicAdmin, signals_spec

if TYPE_CHECKING:
    from tailrace_publisher.checkpoint.published import Published
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_publisher.runtime import DatabaseTopics


class LossNotAccepted(Exception):
    """There is no loss to accept, or the acceptance could not be written; the text has the fix."""


def accept(config: PublisherConfig) -> None:
    """Write the signal that lets the next start take new snapshots of all tables.

    Raises:
        LossNotAccepted: the checkpoint is there, nothing was published, or the brokers do not take
            the signal.
        PublisherError, RegistryError: the checkpoint cannot be read.
    """
    database, kafka = config.source.database, config.kafka
    try:
        with open_topics(config) as topics:
            lost = _lost(config, topics)
        admin = TopicAdmin(topics.kafka, kafka.replication_factor, kafka.start_timeout_s)
        admin.ensure([signals_spec(config.topics.signals)])
        send(config, lost.accepted(config.server_name, database).to_bytes())
    except SignalNotTaken as error:
        raise LossNotAccepted(f"the loss cannot be accepted: {error}") from error
    click.echo(
        f"Accepted that the checkpoint of database {database} is lost, up to {lost.closed_lsn}"
        " (closed LSN). The next start of the publisher takes new snapshots of all tables, which"
        " replace the lake's; subscribers miss the changes since then. This accepts one loss only."
    )


def _lost(config: PublisherConfig, topics: DatabaseTopics) -> Published:
    """What was published before the checkpoint was lost.

    Raises:
        LossNotAccepted: it is not lost, or nothing was published.
    """
    names, server, database = config.topics, config.server_name, config.source.database
    wait_s = config.kafka.start_timeout_s
    existing = existing_topics(topics.kafka, wait_s)
    own = read_checkpoints(topics, wait_s).database if names.offsets in existing else None
    published = newest_published(topics, wait_s) if names.progress in existing else None
    if published is not None and (own is None or published.is_after(own)):
        return published
    if own is not None:
        raise LossNotAccepted(
            f"topic {names.offsets} holds the checkpoint of database {database}: nothing is"
            " lost; start the publisher. For new snapshots of tables: tailrace snapshot"
        )
    raise LossNotAccepted(
        f"nothing of database {database} was published under prefix {config.prefix} by server"
        f" {server}: nothing to accept. A first start takes snapshots; or check prefix,"
        " server_name and source.database"
    )
