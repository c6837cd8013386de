"""Commands that show and find: tail, schema, seek, explain."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import CONFIG, SET, check_options, fail, failing_with, settings_of
from tailrace.reading.terminal import shown, shown_json

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.topics.topic_names import TableName


@click.command()
@CONFIG
@SET
@click.argument("tables", nargs=-1, metavar="[SCHEMA.TABLE...]")
@click.option("--from-lsn", metavar="LSN", help="Begin at this commit LSN.")
@click.option("--from-time", metavar="TIME", help="Begin at this commit time (ISO 8601, UTC).")
@click.option("--follow", "-f", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after so many events.")
def tail(
    config: Path | None,
    flags: tuple[str, ...],
    tables: tuple[str, ...],
    from_lsn: str | None,
    from_time: str | None,
    follow: bool,
    as_json: bool,
    limit: int | None,
) -> None:
    """Show events as subscribers see them: committed, in commit order over all partitions.

    Without a table: of all of them.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from confluent_kafka import KafkaException

    from tailrace.reading.event_text import as_json as json_of
    from tailrace.reading.event_text import as_line
    from tailrace.reading.moments import Moment, MomentError
    from tailrace.reading.tail import EventTail
    from tailrace_service.registry.access import open_registry
    from tailrace_service.registry.client import RegistryError

    show, shown = json_of if as_json else as_line, 0
    kafka = checked.kafka
    with open_registry(checked.registry) as registry:
        events = EventTail(kafka.bootstrap, checked.topics, registry, kafka.librdkafka_options())
        try:
            with failing_with(MomentError, RegistryError, KafkaException, TimeoutError):
                begin = Moment.parse(from_lsn, from_time)
                wanted = _topics(checked, tables)
                for event in events.events(list(wanted), begin, follow=follow):
                    click.echo(show(event, wanted[event.topic]))
                    shown += 1
                    if shown == limit:
                        break
        except KeyboardInterrupt:
            sys.exit(130)
    if events.removed:
        click.echo(f"Retention has removed {events.removed} events from there on.", err=True)


@click.command()
@CONFIG
@SET
@click.argument("table", metavar="SCHEMA.TABLE")
@click.option("--json", "as_json", is_flag=True, help="One JSON array of versions.")
def schema(config: Path | None, flags: tuple[str, ...], table: str, as_json: bool) -> None:
    """Show the versions of a table's schema: from which LSN on, what changed, by which DDL."""
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from confluent_kafka import KafkaException

    from tailrace.reading.schema_versions import ddl_of, versions_of
    from tailrace_publisher.errors import PublisherError
    from tailrace_service.registry.access import open_registry
    from tailrace_service.registry.client import RegistryError

    with failing_with(KafkaException):
        ((topic, name),) = _topics(checked, (table,)).items()
    try:
        ddl = ddl_of(checked.source, name)
    except PublisherError as error:
        click.echo(f"Without the DDL, which the source has: {error}", err=True)
        ddl = {}
    with failing_with(RegistryError, ValueError), open_registry(checked.registry) as registry:
        versions = versions_of(registry, topic, ddl)
    if as_json:
        click.echo(
            shown_json(
                json.dumps(
                    [
                        {
                            "version": version.number,
                            "schema_id": version.schema_id,
                            "capture_instance": version.schema.capture_instance,
                            "schema_lsn": str(version.schema.schema_lsn),
                            "changes": version.changes,
                            "ddl": version.ddl,
                        }
                        for version in versions
                    ],
                    indent=2,
                    ensure_ascii=False,
                )
            )
        )
        return
    for version in versions:
        click.echo(
            f"version {version.number} (id {version.schema_id}) from {version.schema.schema_lsn}"
            f" on, capture instance {shown(version.schema.capture_instance)}"
        )
        for change in version.changes:
            click.echo(f"  {shown(change)}")
        if version.ddl is not None:
            click.echo(f"  by: {shown(version.ddl, lines=True)}")


@click.command()
@CONFIG
@SET
@click.argument("group")
@click.option("--lsn", metavar="LSN", help="To the newest cut up to this commit LSN.")
@click.option("--time", metavar="TIME", help="To the newest cut up to this commit time.")
@click.option("--run", is_flag=True, help="Set the offsets; without it they are only shown.")
def seek(
    config: Path | None,
    flags: tuple[str, ...],
    group: str,
    lsn: str | None,
    time: str | None,
    run: bool,
) -> None:
    """Move a consumer group to a cut; it continues with the first event after it.

    Its consumers must be stopped. Without --lsn and --time: at the newest cut.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from confluent_kafka import KafkaException

    from tailrace.reading.moments import Moment, MomentError
    from tailrace.signals.seek import SeekRefused, cut_at, set_group

    kafka = checked.kafka
    extra = kafka.librdkafka_options()
    with failing_with(MomentError, SeekRefused, KafkaException):
        cut = cut_at(kafka.bootstrap, checked.topics, Moment.parse(lsn, time), extra)
        click.echo(
            "The cut is before the first closed LSN: all partitions from their beginning."
            if cut.closed_lsn is None
            else f"The cut is {cut.closed_lsn}."
        )
        for (topic, partition), offset in sorted(cut.offsets.items()):
            gone = "  (retention has removed what lies between)"
            note = gone if (topic, partition) in cut.removed else ""
            click.echo(f"  {topic}[{partition}] at {offset}{note}")
        if not run:
            click.echo("Nothing was set: add --run.")
            return
        set_group(kafka.bootstrap, group, cut, extra)
    click.echo(f"Group {group} continues with the first event after the cut.")


@click.command()
@CONFIG
@SET
@click.argument("table", metavar="SCHEMA.TABLE")
@click.argument("key", required=False)
@click.option("--lsn", help="Instead of a key: the first commit at or after this LSN.")
@click.option("--time", help="Instead of a key: the same of a time, ISO 8601, UTC without offset.")
@click.option(
    "--changes",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many of the row's last changes, or of the commit's first.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def explain(
    config: Path | None,
    flags: tuple[str, ...],
    table: str,
    key: str | None,
    lsn: str | None,
    time: str | None,
    changes: int,
    as_json: bool,
) -> None:
    """Follow one row: the source now, its last changes, their events, the lake and its cut.

    A key of several columns is a JSON object or array. The change tables are searched whole. With
    --lsn or --time: what a commit did to the table, which needs no key.
    """
    if [key, lsn, time].count(None) != 2:
        raise click.UsageError("Give one of KEY, --lsn and --time.")
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    lake = check_options(settings.sink) if settings.has_sink else None
    from confluent_kafka import KafkaException

    from tailrace.explain.explain import explain_key_or_moment
    from tailrace.explain.report import explanation_json, explanation_lines
    from tailrace.reading.change_rows import NotThere
    from tailrace.reading.moments import Moment, MomentError
    from tailrace.reading.table_names import TableNameError, parse_table
    from tailrace_publisher.errors import PublisherError
    from tailrace_service.registry.client import RegistryError

    errors = (MomentError, TableNameError, NotThere, PublisherError, RegistryError)
    with failing_with(*errors, KafkaException, TimeoutError):
        asked = Moment.parse(lsn, time) if key is None else key
        found = explain_key_or_moment(checked, lake, parse_table(table), asked, changes)
    if as_json:
        click.echo(explanation_json(found, has_lake=lake is not None))
        return
    for line in explanation_lines(found, has_lake=lake is not None):
        click.echo(line)


def _topics(config: PublisherConfig, names: tuple[str, ...]) -> dict[str, TableName]:
    """The published tables of these names by topic, in any case; all of them without names.

    Raises:
        KafkaException: the brokers do not answer or refuse.
    """
    from tailrace.reading.table_names import TableNameError, parse_table
    from tailrace.reading.topics import existing_data_topics
    from tailrace_schemas.topics.topic_names import meant_by

    kafka = config.kafka
    existing = existing_data_topics(kafka.bootstrap, config.topics, kafka.librdkafka_options())
    tables = {topic: config.topics.table_of(topic) for topic in existing}
    known = {topic: table for topic, table in tables.items() if table is not None}
    if not names:
        return known
    found: dict[str, TableName] = {}
    for name in names:
        with failing_with(TableNameError):
            wanted = ".".join(parse_table(name))
        meant = meant_by(wanted, known.values())
        of_name = {topic: table for topic, table in known.items() if table in meant}
        if not of_name:
            there = ", ".join(sorted(f"{n.schema}.{n.table}" for n in known.values()))
            fail(f"table {name} is not published: there are {there or 'none'}")
        found |= of_name
    return found


LOOK = (tail, schema, seek, explain)
