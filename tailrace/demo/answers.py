"""The demo's last act: four answers that the finished pipeline gives of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.audit.audit import Audit, audit
from tailrace.demo import database
from tailrace.demo.configured import QUERY
from tailrace.explain.explain import explain_key_or_moment
from tailrace.explain.report import explanation_lines
from tailrace.settings.load import load
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.access import open_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.reading.lake import CommitRow

_CHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class Answers:
    """What was asked, and what was answered.

    Attributes:
        flight: key of the row that was explained.
        explained: what each stage holds of it, as lines.
        lsn: of the cut in the middle of the day.
        then: flights scheduled, left and arrived by that cut.
        audited: the ledger against the topics.
        by_name: what the query by name found: origin, flights, their mean delay in minutes.
    """

    flight: int
    explained: Sequence[str]
    lsn: str
    then: tuple[int, int, int]
    audited: Audit
    by_name: Sequence[tuple[str, int, float]]


def ask(config: Path, flight: int, spark: SparkSession, commits: Sequence[CommitRow]) -> Answers:
    """Ask for a row, a moment, a proof, and by a table's name.

    Args:
        config: of publisher and sink, which need not run.
        flight: key of a flight.
        spark: a session that reads Delta, with the demo's catalog.
        commits: the lake's commit rows.

    Raises:
        PublisherError, RegistryError, KafkaException, TimeoutError: a part did not answer.
    """
    from tailrace_sink.reading.reader import read

    settings = load(config, {})
    publisher, sink = settings.publisher(), settings.sink()
    kafka, table = publisher.kafka, ("dbo", "flights")
    extra = kafka.librdkafka_options()
    with open_registry(publisher.registry) as registry:
        audited = audit(kafka.bootstrap, publisher.topics, registry, extra)
    found = explain_key_or_moment(publisher, sink, table, str(flight), _CHANGES)
    lsn = commits[len(commits) // 2].closed_lsn
    cut = read(spark, sink.lake).as_of(lsn=lsn)
    row = (
        cut.read(TableName(database.DATABASE, *table))
        .selectExpr("count(*) AS scheduled", "count(dep_time) AS gone", "count(arr_time) AS here")
        .first()
    )
    if row is None:
        raise ValueError(f"the cut at {lsn} gave no figures")
    lines = list(explanation_lines(found, has_lake=True))
    then = (row["scheduled"], row["gone"], row["here"])
    by_name = [(str(name), int(n), float(delay)) for name, n, delay in spark.sql(QUERY).collect()]
    return Answers(flight, lines, lsn, then, audited, by_name)


def tell(answers: Answers, config: Path, query: str) -> list[str]:
    """The four questions, as commands that can be repeated, and their answers."""
    scheduled, gone, here = answers.then
    audited = answers.audited
    problems = audited.problems.count
    proof = f"{problems} problems" if problems else "every event is there once and in order"
    return [
        f"$ tailrace explain --config {config} dbo.flights {answers.flight}",
        *(f"  {line}" for line in answers.explained),
        f'$ read(spark, lake).as_of(lsn="{answers.lsn}")      # the middle of the cuts',
        f"  {scheduled:,} flights scheduled, {gone:,} of them gone, {here:,} arrived",
        f"$ tailrace audit --config {config}",
        f"  {audited.records:,} progress records up to {audited.closed_lsn}: {proof}",
        f"$ {query}",
        *(f"  {name}  {n:,} flights, {delay} min late" for name, n, delay in answers.by_name),
    ]
