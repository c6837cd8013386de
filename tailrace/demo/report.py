"""What the demo prints at its end: events, rates, latency, verification, and what to try next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from tailrace.demo import answers, database, flights, midday, patched, verify
from tailrace.demo.answers import Answers
from tailrace.demo.change_tables import ChangeTables, instances_of
from tailrace.demo.compare import TopicComparison
from tailrace.demo.configured import QUERY, query_path
from tailrace.demo.latency import Percentiles, by_closing, percentiles
from tailrace.demo.patched import PatchComparison
from tailrace.reading.committed import read_all
from tailrace.reading.lake import log_commits
from tailrace.reading.lake_session import configured_session
from tailrace.reading.topics import existing_data_topics
from tailrace.settings.load import load
from tailrace.verify.compare import Limits
from tailrace.verify.report import result_lines
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import VerifyOptions
from tailrace.verify.verify import verify as compare_tables
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import SchemaRegistry

if TYPE_CHECKING:
    import pyodbc
    from rich.console import Console

    from tailrace.demo.replay import ReplayProgress
    from tailrace.reading.lake import CommitRow
    from tailrace_schemas.records.progress import Progress
    from tailrace_sink.options.config import SinkConfig

_WAIT_S: Final = 60.0
"""For the capture job's answer; publisher and sink have stopped, and the lake has everything."""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run."""

    events: int
    operations: dict[str, dict[str, int]]
    statements_per_s: float
    events_per_s: float
    to_topic: Percentiles | None
    to_log: Percentiles | None
    to_lake: Percentiles | None
    topics: list[TopicComparison]
    tables: Sequence[TableResult]
    figures: list[tuple[str, object, object]]
    patch: PatchComparison
    filled: int
    config: Path
    lake: str
    cuts: int
    answers: Answers

    @property
    def verified(self) -> bool:
        """Whether everything that must be equal is."""
        return (
            all(comparison.equal for comparison in self.topics)
            and all(table.is_proven and not table.notes for table in self.tables)
            and len(self.tables) == len(self.topics)
            and all(expected == found for _, expected, found in self.figures)
            and self.patch.equal
            and not self.answers.audited.problems.count
        )


def make_report(
    *,
    bootstrap_servers: str,
    registry_url: str,
    names: TopicNames,
    source: pyodbc.Connection,
    config: Path,
    lake: SinkConfig,
    commits: Sequence[CommitRow],
    records: Sequence[Progress],
    replay: ReplayProgress | None,
    days: int,
    day: midday.Day,
    change_tables: ChangeTables,
    say: Callable[[str], None],
) -> Report:
    """Read everything back, independently of publisher and sink, and compare."""
    topics = {
        names.data(TableName(database.DATABASE, "dbo", table)): table for table in database.TABLES
    }
    say("reading the topics back, read_committed")
    existing = existing_data_topics(bootstrap_servers, names)
    chosen = {topic: existing[topic] for topic in topics if topic in existing}
    facts = verify.gather(read_all(bootstrap_servers, SchemaRegistry(registry_url), chosen))
    say(f"{facts.events_total:,} events read; comparing with the change tables")
    topic_comparisons = verify.check_topics(source, change_tables, facts)
    say("comparing the lake with the source, row by row (tailrace verify)")
    spark = configured_session(lake, {"spark.app.name": "tailrace-demo"})
    try:
        last = commits[-1].tables
        tables = {path.rsplit("/", 1)[1]: (f"{lake.lake}/{path}", v) for path, v in last.items()}
        names_of_tables = [f"dbo.{table}" for table in database.TABLES]
        options = VerifyOptions(names_of_tables, limits=Limits(wait_s=_WAIT_S))
        compared = {
            found.table.removeprefix("dbo."): found
            for found in compare_tables(load(config, {}).publisher(), lake, spark, options).tables
        }
        figures = verify.check_figures(
            spark, tables["flights"], facts, flights.figures(days), day.gates
        )
        say("comparing the patch with the source")
        name, column = midday.NAME, midday.COLUMN
        in_lake = patched.whole_in_lake(spark, lake.commits_path, name.path, column)
        patch = patched.check_patch(
            source,
            instances_of(source, midday.TABLE),
            facts.patches,
            day.left,
            (patched.whole_in_topics(records, names.data(name), column), in_lake),
            (midday.TABLE, midday.KEY),
        )
        say("asking for a row, a moment, a proof, and by name")
        given = answers.ask(config, _a_flight(source, patch.instance), spark, commits)
    finally:
        spark.stop()
    elapsed = (replay.finished or 0) - replay.started if replay is not None else 0.0
    closed = [(r.closed_lsn, r.published_ms) for r in records]
    logged = log_commits(lake.log_path, lake.storage_options())
    cuts = [(row.closed_lsn, row.committed_ms) for row in commits]
    streamed = len(facts.commits)
    return Report(
        events=facts.events_total,
        operations=facts.operations,
        statements_per_s=replay.rate if replay is not None else 0.0,
        events_per_s=streamed / elapsed if elapsed else 0.0,
        to_topic=percentiles(by_closing(facts.commits, closed)),
        to_log=percentiles(by_closing(facts.commits, logged)),
        to_lake=percentiles(by_closing(facts.commits, cuts)),
        topics=topic_comparisons,
        tables=[compared[table.table] for table in topic_comparisons],
        figures=figures,
        patch=patch,
        filled=len(day.left),
        config=config,
        lake=lake.lake,
        cuts=len(commits),
        answers=given,
    )


def _a_flight(source: pyodbc.Connection, instance: str) -> int:
    """A flight whose changes are all in an instance: inserted once, updated twice, and arrived."""
    row = source.execute(
        f"SELECT MIN(c.flight_id) FROM cdc.[{instance}_CT] c JOIN dbo.flights f"
        " ON f.flight_id = c.flight_id WHERE c.[__$operation] = 2 AND f.arr_time IS NOT NULL"
    ).fetchone()
    return int(row[0])


def tell(console: Console, report: Report) -> None:
    """Print the report."""
    table = Table(
        title="Source, topics and lake: change rows, events by op, each change once, rows",
        title_justify="left",
    )
    for name, justify in (("table", "left"), ("changes", "right"), ("r", "right"),
                          ("c", "right"), ("u", "right"), ("d", "right"),
                          ("once", "left"), ("source", "right"),
                          ("lake", "right"), ("equal", "left")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for in_topic, in_lake in zip(report.topics, report.tables, strict=True):
        operations = report.operations[in_topic.table]
        table.add_row(
            in_topic.table,
            f"{in_topic.change_rows:,}",
            *[f"{operations[op]:,}" for op in ("r", "c", "u", "d")],
            _mark(in_topic.equal),
            f"{in_lake.source_rows:,}",
            f"{in_lake.lake_rows:,}",
            _mark(in_lake.is_proven),
        )
    console.print(table)
    for comparison in report.topics:
        if not comparison.equal:
            console.print(f"[red]differs:[/] {comparison}", highlight=False, soft_wrap=True)
    for line in result_lines(report.tables):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(_figures(report))
    console.print(
        f"{report.events:,} events; source {report.statements_per_s:,.0f} statements/s, topics"
        f" {report.events_per_s:,.0f} events/s; {report.cuts} cuts in the lake"
    )
    for name, latency in (
        ("topic", report.to_topic),
        ("lake, log (readable by as_of)", report.to_log),
        ("lake, tables", report.to_lake),
    ):
        if latency is not None:
            console.print(
                f"commit to {name}: p50 {latency.p50_s:.2f} s, p99 {latency.p99_s:.2f} s"
                f" (of {latency.count:,} changes; the capture job's interval is part of it)"
            )
    for line in patched.tell(report.patch, report.filled):
        console.print(line, highlight=False, soft_wrap=True)
    if report.verified:
        console.print(
            "Later tailrace publish was killed and started again: nothing is missing, nothing is"
            " twice."
        )
    data_dir = report.config.parent
    query = f'.venv/bin/python {query_path(data_dir)} "{QUERY}"'
    console.print("\nFour answers:", style="bold")
    for line in answers.tell(report.answers, report.config, query):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    verdict = "[bold green]verified[/]" if report.verified else "[bold red]NOT EQUAL[/]"
    console.print(f"\n{verdict}: the lake is in {report.lake}\n\nTry next:")
    console.print(
        f"  .venv/bin/tailrace up --data-dir {data_dir}        # the same stack, to connect to\n"
        f"  .venv/bin/tailrace status --config {report.config}\n"
        f"  {query}\n"
        f'  make demo ARGS="--days 7 --rate 0"                 # a week, as fast as it goes',
        highlight=False,
        soft_wrap=True,
    )


def _figures(report: Report) -> Table:
    figures = Table(title="The data set's own figures", title_justify="left")
    for name in ("figure", "data set", "lake", "equal"):
        figures.add_column(name, justify="left" if name in ("figure", "equal") else "right")
    for name, expected, found in report.figures:
        figures.add_row(name, str(expected), str(found), _mark(expected == found))
    return figures


def _mark(equal: bool) -> str:
    return "[green]yes[/]" if equal else "[bold red]NO[/]"
