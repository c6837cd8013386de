"""What ``tailrace audit`` prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from tailrace.audit.audit import Audit, audit
from tailrace.reading.event_text import time_text
from tailrace.reading.stopped_tables import PublisherNotes, notes_if_readable
from tailrace_service.registry.access import open_registry

if TYPE_CHECKING:
    from tailrace.audit.lake_log import LakeAudit
    from tailrace.lake.log import DeltaLog
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig


def run(config: PublisherConfig, lake: SinkConfig | None = None, *, as_json: bool) -> bool:
    """Audit and print; returns whether nothing is wrong.

    Args:
        lake: whose log is checked as well.

    Raises:
        ConfigError: the store of the lake is not one that is read without Spark.
        LakeUnreadable: the lake has no log.
        KafkaException, TimeoutError, PublisherError, RegistryError: as :func:`audit`.
    """
    kafka = config.kafka
    log = None if lake is None else _log_of(lake)
    with open_registry(config.registry) as registry:
        found = audit(
            kafka.bootstrap,
            config.topics,
            registry,
            kafka.librdkafka_options(),
            timeout_s=kafka.start_timeout_s,
            log=log,
        )
    notes = notes_if_readable(config) if found.records else PublisherNotes()
    if as_json:
        click.echo(json.dumps(asdict(found) | notes.to_json(), indent=2))
    else:
        _print(found, notes)
    return not found.problems.count


def _log_of(lake: SinkConfig) -> DeltaLog:
    from tailrace.lake.errors import LakeUnreadable
    from tailrace.lake.log import DeltaLog
    from tailrace.lake.store import LakeStore

    log = DeltaLog.of(LakeStore.of(lake.lake, lake.store or {}))
    if log is None:
        raise LakeUnreadable(f"the log of lake {lake.lake}", "no sink has written one")
    return log


def _print(found: Audit, notes: PublisherNotes) -> None:
    console = Console(highlight=False)
    table = Table()
    table.add_column("topic")
    for heading in ("events", "transactions", "removed by retention"):
        table.add_column(heading, justify="right")
    for topic in sorted(found.topics.values(), key=lambda topic: topic.topic):
        figures = (topic.events, topic.transactions, topic.removed)
        table.add_row(topic.topic, *(f"{figure:,}" for figure in figures))
    console.print(table)
    if not found.records:
        console.print("Nothing was published under this prefix.")
        return
    console.print(
        f"{found.records:,} progress records from LSN {found.from_lsn} to {found.closed_lsn}."
    )
    if found.begins_ms is not None:
        unproven = sum(topic.unproven for topic in found.topics.values())
        console.print(
            f"- not checked: {unproven:,} offsets from before {time_text(found.begins_ms)}."
            " Retention has removed their progress records.",
            markup=False,
        )
    for lost in found.lost:
        since, events = lost["kept_lsn"] or "the beginning", sum(lost["events"].values())
        console.print(
            f"- lost at the source: {events:,} events after {since}, up to {lost['through_lsn']}."
            " An operator accepted the restored database.",
            markup=False,
        )
    if found.lake is not None:
        _print_lake(console, found.lake)
    for name in found.not_provable:
        console.print(f"- not provable: topic {name} is compacted", markup=False)
    for text in found.problems.texts:
        console.print(f"- {text}", markup=False)
    if found.problems.count > len(found.problems.texts):
        console.print(f"- and {found.problems.count - len(found.problems.texts):,} more")
    if not found.problems.count:
        others = " in the others" if found.not_provable else ""
        since = "" if found.begins_ms is None else " since then"
        console.print(
            f"Every event{since}{others} is accounted for, once and in order; no gap in the LSNs."
        )
    for line in notes.lines():  # later changes of a stopped table were never published
        console.print(line, markup=False)


def _print_lake(console: Console, lake: LakeAudit) -> None:
    console.print(
        f"The lake's log: {lake.events:,} events in {lake.cuts:,} cuts, up to LSN"
        f" {lake.closed_lsn}.",
        markup=False,
    )
    if lake.earlier:
        console.print(
            f"- not checked: {lake.earlier:,} progress records from before the first cut in it",
            markup=False,
        )
    for reason, count in sorted(lake.left_out.items()):
        console.print(f"- not in it: {count:,} events: {reason}", markup=False)
