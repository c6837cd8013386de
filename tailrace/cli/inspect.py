"""Commands that inspect what was published: tail, schema, explain, audit."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import Configuration, configured, fail, failing_with
from tailrace.reading.terminal import shown, shown_json

if TYPE_CHECKING:
    from tailrace.reading.schema_versions import Version
    from tailrace.reading.wanted_topics import WantedTopics


@click.command()
@click.argument("tables", nargs=-1, metavar="[SCHEMA.TABLE...]")
@click.option("--from-lsn", metavar="LSN", help="Start at this commit LSN.")
@click.option("--from-time", metavar="TIME", help="Start at this commit time (ISO 8601, UTC).")
@click.option("--follow", "-f", is_flag=True, help="Wait for more events at the end, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N events.")
@configured
def tail(
    configuration: Configuration,
    tables: tuple[str, ...],
    from_lsn: str | None,
    from_time: str | None,
    follow: bool,
    as_json: bool,
    limit: int | None,
) -> None:
    """Print events in commit order, across all topics.

    Merges all partitions. Prints committed events only, as subscribers see them. Without a table:
    of all tables.
    """
    config = configuration.publisher
    from tailrace.reading.event_text import as_json as json_of
    from tailrace.reading.event_text import as_line
    from tailrace.reading.moments import Moment, MomentError
    from tailrace.reading.table_names import TableNameError
    from tailrace.reading.tail import EventTail
    from tailrace.reading.wanted_topics import WantedTopics
    from tailrace_service.registry.access import open_registry

    show, printed = json_of if as_json else as_line, 0
    kafka = config.kafka
    with open_registry(config.registry) as registry:
        events = EventTail(kafka.bootstrap, config.topics, registry, kafka.librdkafka_options())
        try:
            with failing_with(MomentError, TableNameError):
                start = Moment.parse(from_lsn, from_time)
                wanted = WantedTopics(kafka, config.topics, tables)
                _check_or_wait(wanted, follow=follow)
                for event in events.events(wanted, start, follow=follow):
                    click.echo(show(event, wanted.found[event.topic]))
                    printed += 1
                    if printed == limit:
                        break
        except KeyboardInterrupt:
            sys.exit(130)
    if not printed:
        place = " from there on" if from_lsn or from_time else ""
        reached = f"complete up to LSN {events.closed_lsn}" if events.closed_lsn else "empty"
        click.echo(f"No event{place}: the topics are {reached}.", err=True)
    if events.removed:
        click.echo(f"Retention has removed {events.removed} events from there on.", err=True)


def _check_or_wait(wanted: WantedTopics, *, follow: bool) -> None:
    """Fail if a table has no topic; if the command waits, print what it waits for."""
    problem = wanted.problem()
    if problem is not None and not follow:
        fail(problem)
    if problem is not None:
        click.echo(f"Waiting: {problem}", err=True)
    elif follow and not wanted.found:
        kafka, prefix = wanted.kafka.bootstrap, wanted.names.prefix
        click.echo(f"Waiting: Kafka at {kafka} has no topics of prefix {prefix} yet", err=True)


@click.command()
@click.argument("table", metavar="SCHEMA.TABLE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@configured
def schema(configuration: Configuration, table: str, as_json: bool) -> None:
    """Show the versions of a table's schema, with DDL."""
    config = configuration.publisher
    from tailrace.reading.schema_versions import ddl_of, versions_of
    from tailrace.reading.table_names import TableNameError
    from tailrace.reading.wanted_topics import WantedTopics
    from tailrace_publisher.errors import PublisherError
    from tailrace_schemas.topics.topic_names import told_apart
    from tailrace_service.registry.access import open_registry

    with failing_with(TableNameError):
        wanted = WantedTopics(config.kafka, config.topics, (table,))
    _check_or_wait(wanted, follow=False)
    if len(wanted.found) > 1:
        fail(told_apart(table, wanted.found.values()))
    ((topic, name),) = wanted.found.items()
    try:
        ddl = ddl_of(config.source, name)
    except PublisherError as error:
        click.echo(f"Without the DDL, which only the source has: {error}", err=True)
        ddl = {}
    with failing_with(ValueError), open_registry(config.registry) as registry:
        versions = versions_of(registry, topic, ddl)
    if as_json:
        answer = {"table": f"{name.schema}.{name.table}", "versions": list(map(_as_json, versions))}
        click.echo(shown_json(json.dumps(answer, indent=2, ensure_ascii=False)))
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


def _as_json(version: Version) -> dict[str, object]:
    return {
        "version": version.number,
        "schema_id": version.schema_id,
        "capture_instance": version.schema.capture_instance,
        "schema_lsn": str(version.schema.schema_lsn),
        "changes": version.changes,
        "ddl": version.ddl,
    }


@click.command()
@click.argument("table", metavar="SCHEMA.TABLE")
@click.argument("key", required=False)
@click.option("--lsn", help="Explain the first commit at or after this LSN, instead of a key.")
@click.option("--time", help="The same for a time (ISO 8601; UTC without an offset).")
@click.option(
    "--changes",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Show at most this many changes: the row's last, or the commit's first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@configured
def explain(
    configuration: Configuration,
    table: str,
    key: str | None,
    lsn: str | None,
    time: str | None,
    changes: int,
    as_json: bool,
) -> None:
    """Follow one row or commit from source to lake.

    Shows the row in the source, its last changes, their events, and the row in the lake. A key of
    several columns is a JSON object or array. Searches the change tables without an index. With
    --lsn or --time: what one commit did to the table; that needs no key.
    """
    if [key, lsn, time].count(None) != 2:
        raise click.UsageError("Give one of KEY, --lsn and --time.")
    config, lake = configuration.publisher, configuration.sink_if_any
    from tailrace.explain.explain import explain_key_or_moment
    from tailrace.explain.report import explanation_json, explanation_lines
    from tailrace.reading.change_rows import NotThere
    from tailrace.reading.moments import Moment, MomentError
    from tailrace.reading.table_names import TableNameError, parse_table

    with failing_with(MomentError, TableNameError, NotThere):
        asked = Moment.parse(lsn, time) if key is None else key
        found = explain_key_or_moment(config, lake, parse_table(table), asked, changes)
    if as_json:
        click.echo(explanation_json(found, has_lake=lake is not None))
        return
    for line in explanation_lines(found, has_lake=lake is not None):
        click.echo(line)


@click.command()
@click.option("--lake", "with_lake", is_flag=True, help="Check the lake's log as well.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@configured
def audit(configuration: Configuration, with_lake: bool, as_json: bool) -> None:
    """Prove: no event is lost, repeated or out of order.

    Reads every data topic, and compares it with the ledger in the progress records. Needs neither
    source nor lake. With --lake: every event in the lake's log, too. Ends with 1 if they differ.
    """
    config = configuration.publisher
    lake = configuration.sink if with_lake else None
    from tailrace.audit.report import run
    from tailrace.cli.log_format import quiet_logs

    with quiet_logs():
        is_right = run(config, lake, as_json=as_json)
    sys.exit(0 if is_right else 1)
