"""``tailrace status``: the lag of each table at the topics and in the lake."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from tailrace.lag.backlog_bar import backlog_bar
from tailrace.lag.catalog import unnamed
from tailrace.lag.stages import Stage, lag_s, lake_stage, published_stage, topic_of
from tailrace.reading.terminal import shown
from tailrace_schemas.position.lsn import lsn_text
from tailrace_schemas.topics.topic_names import TableName

if TYPE_CHECKING:
    from tailrace.reading.stopped_tables import PublisherNotes
    from tailrace.settings.settings import Settings
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_publisher.ports import Connection
    from tailrace_service.status import Backlog


@dataclass(frozen=True, slots=True)
class TableLag:
    """One table's newest captured change, and the lag of each stage from it.

    None means that there is no such stage yet; 0.0 that it has the newest change. A table that is
    not in the cut is in its snapshot, or was stopped: ``publisher_state`` and ``publisher_says``
    say which, if its checkpoint can be read. Why the sink stopped a table is in ``lake_stopped``;
    ``dead_letters`` counts the records that it could not apply. ``publisher_paused`` is the same of
    all tables.
    """

    table: str
    newest_lsn: str | None
    topic_lsn: str | None
    topic_lag_s: float | None
    lake_lsn: str | None
    lake_lag_s: float | None
    in_cut: bool = True
    lake_stopped: str | None = None
    dead_letters: int = 0
    publisher_state: str | None = None
    publisher_says: str | None = None
    publisher_paused: bool = False


def show(settings: Settings, backlog: Backlog | None, *, as_json: bool) -> None:
    """Ask source, topics and lake, and print.

    Args:
        backlog: as the sink reports it; None if it does not answer.

    Raises:
        SettingsError: the configuration is not usable.
        PublisherError: the source cannot be asked.
        StageUnavailable: topics or lake cannot be asked.
    """
    config = settings.publisher()
    topics = published_stage(config)
    lake = lake_stage(settings) if settings.has_sink else None
    notes = _notes(config, topics)
    lags = [_noted(lag, notes) for lag in _lags(config, topics, lake)]
    if as_json:
        answer = {"tables": [asdict(lag) for lag in lags]} | notes.to_json()
        answer["backlog"] = None if backlog is None else asdict(backlog)
        click.echo(json.dumps(answer, indent=2))
        return
    table = Table()
    for heading in ("table", "newest change", "topics at", "behind", "lake at", "behind"):
        justify: JustifyMethod = "right" if heading == "behind" else "left"
        table.add_column(heading, justify=justify, overflow="fold")  # an LSN is of use as a whole
    for lag in lags:
        table.add_row(
            Text(shown(lag.table)),
            lag.newest_lsn or "none",
            *_stage(lag.topic_lsn or "nothing published", lag.topic_lag_s, _why_out(lag)),
            *_stage(lag.lake_lsn or "nothing applied", lag.lake_lag_s, _why_out_of_lake(lag)),
        )
    console = Console()
    console.print(table)
    for line in notes.lines():
        console.print(Text(line))
    if backlog is not None and backlog.left:
        console.print(backlog_bar(backlog))
    for lag in lags:
        if lag.lake_stopped is not None:
            console.print(Text(shown(f"The sink stopped {lag.table}: {lag.lake_stopped}")))
        if lag.dead_letters:
            path = settings.sink().dead_letters_path
            told = (
                f"{lag.table} lacks {lag.dead_letters} records that could not be applied: see the"
                f" Delta table {path}; a new snapshot (tailrace snapshot) brings the rows that the"
                " source has"
            )
            console.print(Text(shown(told)))
    if settings.has_sink:
        for line in unnamed(settings.sink()):
            console.print(Text(shown(line)))
    if topics is not None and topics.closed_commit_ms is not None:
        age_s = max(0.0, time.time() - topics.closed_commit_ms / 1000)
        console.print(_completeness(lags, age_s))


def _completeness(lags: Iterable[TableLag], age_s: float) -> str:
    """How far the topics are; an idle database does not lag, however old its last commit is."""
    if all(lag.topic_lag_s == 0 for lag in lags if lag.in_cut):
        return "The topics have every captured change of the tables in the cut."
    return f"The topics are known to be complete up to {age_s:.0f} s ago."


def _stage(reached: str, lag: float | None, out: str | None) -> tuple[str, str]:
    return (reached, _seconds(lag)) if out is None else (out, "")


def _why_out(lag: TableLag) -> str | None:
    """Why a table is not in the topics' cut; None where it is."""
    return None if lag.in_cut else lag.publisher_state or "in snapshot or stopped"


def _why_out_of_lake(lag: TableLag) -> str | None:
    return _why_out(lag) if lag.lake_stopped is None else "stopped"


def _noted(lag: TableLag, notes: PublisherNotes) -> TableLag:
    note = None if lag.in_cut else notes.tables.get(lag.table)
    return replace(
        lag,
        publisher_state=None if note is None else note.state,
        publisher_says=None if note is None else note.told,
        publisher_paused=notes.paused_since_ms is not None,
    )


def _notes(config: PublisherConfig, topics: Stage | None) -> PublisherNotes:
    """What the checkpoints say; nothing while nothing is published."""
    from tailrace.reading.stopped_tables import PublisherNotes, notes_if_readable

    return PublisherNotes() if topics is None else notes_if_readable(config)


def _seconds(lag: float | None) -> str:
    if lag is None:
        return ""
    return "up to date" if lag == 0 else f"{lag:.1f} s"


def _lags(config: PublisherConfig, topics: Stage | None, lake: Stage | None) -> Iterable[TableLag]:
    from tailrace_publisher.source.catalog import capture_catalog as catalog
    from tailrace_publisher.source.connection.connection import OdbcConnection
    from tailrace_publisher.source.log.commit_times import utc_offset_minutes

    with OdbcConnection(config.source) as connection:
        offset = timedelta(minutes=utc_offset_minutes(connection))
        instances: dict[TableName, list[str]] = {}
        for row in catalog.change_tables(connection):
            name = TableName(config.source.database, row.schema, row.table)
            instances.setdefault(name, []).append(row.instance)
        for name, captured_by in instances.items():
            if not config.tables.selects(name):
                continue
            topic = topic_of(config, name)
            is_there = lake is None or lake.tables is None or name.path in lake.tables
            applied = lake if is_there else None
            newest_lsn, committed = _newest_of(connection, captured_by)
            newest_ms = None
            if committed is not None:
                newest_ms = round((committed - offset).replace(tzinfo=UTC).timestamp() * 1000)
            yield TableLag(
                table=f"{name.schema}.{name.table}",
                newest_lsn=newest_lsn,
                topic_lsn=topics.closed_lsn if topics else None,
                topic_lag_s=lag_s(newest_lsn, newest_ms, topics),
                lake_lsn=applied.closed_lsn if applied else None,
                lake_lag_s=lag_s(newest_lsn, newest_ms, applied),
                in_cut=topics is None or topic not in topics.left_out,
                lake_stopped=lake.stopped.get(topic) if lake else None,
                dead_letters=lake.dead_letters.get(topic, 0) if lake else 0,
            )


def _newest_of(
    connection: Connection, instances: Iterable[str]
) -> tuple[str | None, datetime | None]:
    """The newest change of a table in any of its capture instances."""
    found = [_newest(connection, instance) for instance in instances]
    return max(found, key=lambda change: change[0] or "")


def _newest(connection: Connection, instance: str) -> tuple[str | None, datetime | None]:
    from tailrace_publisher.source.log.queries import change_table

    rows = connection.query(
        "SELECT TOP (1) ct.[__$start_lsn], ltm.tran_end_time"
        f" FROM {change_table(instance)} AS ct"
        " LEFT JOIN cdc.lsn_time_mapping AS ltm ON ltm.start_lsn = ct.[__$start_lsn]"
        " ORDER BY ct.[__$start_lsn] DESC"
    )
    return (lsn_text(rows[0][0]), rows[0][1]) if rows else (None, None)
