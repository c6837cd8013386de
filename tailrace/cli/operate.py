"""Commands that operate a pipeline: snapshots, pauses, seek, acceptance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import Configuration, configured, fail, failing_with

if TYPE_CHECKING:
    from tailrace_schemas.records.signals import Signal, TableOrder

_WAIT = click.option(
    "--wait",
    "wait_s",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait until the publisher has taken the request; 0: do not wait.",
)


def _condition(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Check the value of --where."""
    from tailrace_publisher.options.sql_condition import check_condition

    if text is not None:
        try:
            check_condition(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return text


@click.command()
@click.argument("tables", nargs=-1, metavar="SCHEMA.TABLE...")
@click.option(
    "--where",
    metavar="CONDITION",
    callback=_condition,
    help="Publish only the rows that meet this T-SQL condition.",
)
@click.option(
    "--pause",
    "order",
    flag_value="pause",
    help="Pause a running snapshot; changes of the table continue.",
)
@click.option("--resume", "order", flag_value="resume", help="Resume a paused snapshot.")
@click.option(
    "--stop",
    "order",
    flag_value="stop",
    help="Abandon a running snapshot; changes of the table continue.",
)
@_WAIT
@configured
def snapshot(
    configuration: Configuration,
    tables: tuple[str, ...],
    order: str | None,
    where: str | None,
    wait_s: float,
) -> None:
    """Request, pause, resume or stop snapshots of tables.

    A new snapshot brings a stopped table back, and replaces the lake's tables. With --where, only
    matching rows are published again and none are deleted; that requires a key and a finished
    snapshot. The tables stay part of the lake's cuts.

    A running publisher takes the request at once, any other when it starts.

    --pause, --resume and --stop apply to running snapshots: of the named tables, or of all. After
    --stop the lake keeps the table as it was before, until a new snapshot is published.
    """
    from tailrace_schemas.records.signals import SnapshotSignal, TableOrder

    if order is not None and where is not None:
        raise click.UsageError(f"--where belongs to a new snapshot, not to --{order}.")
    if order is None and not tables:
        raise click.UsageError("Missing argument 'SCHEMA.TABLE...'.")
    if order is not None:
        signal_of = _order(TableOrder(f"{order}_snapshot"))
        _request(configuration, tables, wait_s, signal_of, f"snapshots to {order}")
    elif where is not None:
        conditions = where  # a name that cannot be None, for the lambda
        _request(
            configuration,
            tables,
            wait_s,
            lambda names: SnapshotSignal(names, dict.fromkeys(names, conditions)),
            "a partial snapshot",
        )
    else:
        _request(configuration, tables, wait_s, SnapshotSignal, "a new snapshot")


@click.command("stop-table")
@click.argument("tables", nargs=-1, required=True, metavar="SCHEMA.TABLE...")
@_WAIT
@configured
def stop_table(configuration: Configuration, tables: tuple[str, ...], wait_s: float) -> None:
    """Stop publishing tables until a new snapshot.

    They leave the lake's cuts. Their changes from now on are not published.
    """
    from tailrace_schemas.records.signals import TableOrder

    _request(configuration, tables, wait_s, _order(TableOrder.STOP_TABLE), "a stop")


@click.command()
@_WAIT
@configured
def pause(configuration: Configuration, wait_s: float) -> None:
    """Pause the publisher.

    A paused publisher stays alive, keeps its place and publishes nothing. A restart does not end
    the pause; publisher.pause_max_h hours do.
    """
    _request_pause(configuration, wait_s, "the publisher to pause", is_paused=True)


@click.command()
@_WAIT
@configured
def resume(configuration: Configuration, wait_s: float) -> None:
    """Resume a paused publisher where it was."""
    _request_pause(configuration, wait_s, "the publisher to resume", is_paused=False)


@click.command()
@click.argument("group")
@click.option("--lsn", metavar="LSN", help="The newest cut up to this commit LSN.")
@click.option("--time", metavar="TIME", help="The newest cut up to this commit time.")
@click.option("--run", is_flag=True, help="Set the offsets; without it they are only printed.")
@configured
def seek(
    configuration: Configuration, group: str, lsn: str | None, time: str | None, run: bool
) -> None:
    """Move a consumer group to a cut.

    The group continues with the first event after the cut. Stop its consumers first. Without --lsn
    and --time: the newest cut.
    """
    config = configuration.publisher
    from tailrace.reading.moments import Moment, MomentError
    from tailrace.signals.seek import SeekRefused, cut_at, set_group

    kafka = config.kafka
    extra = kafka.librdkafka_options()
    with failing_with(MomentError, SeekRefused):
        moment, limit_s = Moment.parse(lsn, time), kafka.start_timeout_s
        cut = cut_at(kafka.bootstrap, config.topics, moment, extra, timeout_s=limit_s)
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


@click.command("accept-database")
@click.option("--run", is_flag=True, help="Accept it; without it the loss is only shown.")
@click.option(
    "--snapshots/--no-snapshots",
    default=True,
    show_default=True,
    help="Read the tables again that may differ from the database.",
)
@click.option("--repair", is_flag=True, help="Read only the rows that may differ, where possible.")
@click.option(
    "--compensate", "repair", is_flag=True, hidden=True, help="The former name of --repair."
)
@configured
def accept_database(configuration: Configuration, run: bool, snapshots: bool, repair: bool) -> None:
    """Accept a restored or replaced database.

    Run it after the publisher ended with DatabaseReplaced. It shows which published commits the
    database does not have, by topic and time, and which of its changes are not published. With
    --run it writes into the checkpoint that the database continues the published one. Publishing
    continues with the first change after the last published LSN. Tables that may differ get new
    snapshots, which replace their rows in the lake. Lost events stay in the topics; a record of
    the progress topic names them. A running publisher of the database ends.

    With --repair the next start of the publisher reads only the rows that may differ. Lost events
    and the database's own changes give their keys. The rows are published with source.snapshot
    repair. Their tables stay in the cut; cuts from the last published LSN up to the repair mix both
    histories. Tables that cannot be repaired get snapshots; the reason is shown.
    """
    config = configuration.publisher
    from tailrace.signals.accept_database import comparison, outcome
    from tailrace_publisher.daemon.offline.accept_database import accept_database as accept
    from tailrace_publisher.daemon.offline.accept_database import compare_database

    if run:
        found = accept(config, snapshots=snapshots, repair=repair)
    else:
        found = compare_database(config, repair=repair)
    for line in comparison(config.source.database, found):
        click.echo(line)
    for line in outcome(found, is_accepted=run, snapshots=snapshots):
        click.echo(line)


@click.command("accept-checkpoint-loss")
@configured
def accept_checkpoint_loss(configuration: Configuration) -> None:
    """Accept a lost checkpoint; read all tables again.

    Run it after the publisher ended with CheckpointLost. Its next start takes new snapshots of all
    tables, which replace the lake's tables. Subscribers miss the changes since the last closed
    LSN. Accepts this one loss only.
    """
    config = configuration.publisher
    from tailrace.signals.accept_checkpoint_loss import LossNotAccepted, accept

    with failing_with(LossNotAccepted):
        accept(config)


def _order(order: TableOrder) -> Callable[[tuple[str, ...]], Signal]:
    from tailrace_schemas.records.signals import TableSignal

    return lambda names: TableSignal(order, names)


def _request(
    configuration: Configuration,
    tables: tuple[str, ...],
    wait_s: float,
    signal_of: Callable[[tuple[str, ...]], Signal],
    what: str,
) -> None:
    config = configuration.publisher
    from tailrace.signals.request import SignalNotTaken, ask

    with failing_with(SignalNotTaken):
        ask(config, tables, wait_s, signal_of, what)


def _request_pause(
    configuration: Configuration, wait_s: float, what: str, *, is_paused: bool
) -> None:
    config = configuration.publisher
    from tailrace.signals.request import SignalNotTaken, ask_publisher
    from tailrace_schemas.records.signals import PauseSignal

    with failing_with(SignalNotTaken):
        ask_publisher(config, PauseSignal(is_paused), wait_s, what)


@click.command()
@click.option("--lsn", metavar="LSN", help="Newest cut at or before this LSN. Default: the newest.")
@click.option(
    "--time",
    "time",
    metavar="TIME",
    help="Newest cut at or before this commit time (ISO 8601, UTC).",
)
@click.option(
    "--name",
    default="cut",
    show_default=True,
    metavar="NAME",
    help="Name of the cut: schema dbo gets the views dbo_NAME.",
)
@configured
def views(configuration: Configuration, lsn: str | None, time: str | None, name: str) -> None:
    """Create permanent views of one cut in the catalog.

    For each table of the cut one view at its version, in the schema dbo_cut for tables of dbo. All
    views of a name belong to one cut: the old ones are dropped before the first new one is
    created. Readers need neither Tailrace nor versions. The views fail after sink.retention has
    forgotten their cut. Requires sink.catalog.
    """
    from tailrace.reading.lake_session import configured_session
    from tailrace_sink.errors import SinkError
    from tailrace_sink.options.catalog_options import CatalogKind
    from tailrace_sink.reading.permanent_views import create_cut_views
    from tailrace_sink.reading.point import LATEST, Point
    from tailrace_sink.tables.catalog_names import allowed

    config = configuration.sink
    if config.iceberg is not None:
        fail(
            "sink.format is iceberg, whose catalog gets no views. Fix: use"
            " tailrace_sink.read(spark, lake).as_of(...).create_views()"
        )
    if config.catalog.kind is CatalogKind.NONE:
        fail("sink.catalog.kind is none, so no name can be stored. Fix: set sink.catalog")
    if allowed(name) != name:
        raise click.BadParameter("use lower-case letters, digits and _", param_hint="--name")
    with failing_with(SinkError):
        point = Point.of(LATEST, lsn, time)
        spark = configured_session(config)
        try:
            made = create_cut_views(spark, config, name, point)
        finally:
            spark.stop()
    for view in made.names:
        click.echo(str(view))
    click.echo(f"{len(made.names)} views of the cut at LSN {made.closed_lsn}.", err=True)
