"""The lag of each table at each stage: captured, published, in the lake's log, in its table.

Each part is queried on its own. A part that does not answer is named; the others are shown all
the same. ``tailrace lag`` and ``tailrace web`` show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.lag.stages import Stage, StageUnavailable, lag_s, published_stage, topic_of

if TYPE_CHECKING:
    from tailrace.lag.source import SourceState
    from tailrace.settings.settings import Settings
    from tailrace_publisher.options.publisher_config import PublisherConfig

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TableFreshness:
    """One table: LSNs, and the lag of each stage from its newest captured change.

    Seconds are 0.0 if the stage has the newest change, and None if that is not known.

    Attributes:
        newest_lsn: commit LSN of its newest captured change; None while there is none.
        newest_ms: commit time of that change, milliseconds UTC.
        log_s: at the lake's log.
        lake_s: at the lake's table.
        in_cut: whether it is part of the cut: neither in its snapshot nor stopped.
        stopped: why the sink stopped it.
    """

    table: str
    newest_lsn: str | None
    newest_ms: int | None
    topic_s: float | None
    log_s: float | None
    lake_s: float | None
    in_cut: bool = True
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class StageLag:
    """One stage for all tables: up to where, and how old that is.

    Attributes:
        lsn: up to which it has everything; None while it has nothing.
        commit_ms: source commit time of that LSN, milliseconds UTC.
        lag_s: seconds for which the oldest change of a table in the cut has waited for the stage.
            For the change tables it is what the capture job reports. 0.0 if none waits: an idle
            database does not lag, however old its last commit is. None if unknown.
    """

    lsn: str | None = None
    commit_ms: int | None = None
    age_s: float | None = None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """Everything at one moment.

    Attributes:
        at_ms: the moment, milliseconds UTC.
        capture_s: lag of the capture job from the source's log, as the job reports it.
        retention_s: how long the source keeps change rows; None: the login may not see it.
        capture_age_s: seconds since the capture job's newest scan without an error; None likewise.
        capture_error: the newest error, if its newest scan failed.
        published_ms: when the newest progress record was written, milliseconds UTC; None: none is.
        stages: the configured stages, in the order captured, topics, log, lake.
        tables: in the order of their names.
        problems: by part, what kept it from answering.
    """

    at_ms: int
    capture_s: float | None
    stages: Mapping[str, StageLag]
    tables: tuple[TableFreshness, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    retention_s: float | None = None
    capture_age_s: float | None = None
    published_ms: int | None = None
    capture_error: str | None = None

    @property
    def until_loss_s(self) -> float | None:
        """Seconds until the cleanup job removes what is not published, if nothing more is."""
        age_s = self.stages["topics"].age_s if "topics" in self.stages else None
        if self.retention_s is None or age_s is None:
            return None
        return self.retention_s - age_s

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


class FreshnessReader:
    """Query all parts of a configuration, again and again.

    Args:
        settings: the configuration; the lake is queried if the sink is configured.

    Raises:
        SettingsError: it is not usable.
    """

    def __init__(self, settings: Settings) -> None:
        from tailrace.lag.lake import LakeStages

        self._config: PublisherConfig = settings.publisher()
        self._lake = LakeStages(settings.sink()) if settings.has_sink else None

    def read(self) -> Freshness:
        """Ask now."""
        problems: dict[str, str] = {}
        # Against the stream: no stage seems to be ahead of the one before it.
        log = lake = None
        if self._lake is not None:
            lake = _asked("lake", problems, self._lake.tables)
            log = _asked("log", problems, self._lake.log)
        topics = _asked("topics", problems, lambda: published_stage(self._config))
        stages = {"topics": topics}
        if self._lake is not None:
            stages |= {"log": log, "lake": lake}
        lsns = [stage.closed_lsn for stage in stages.values() if stage and stage.closed_lsn]
        source = _asked("source", problems, lambda: _source(self._config, lsns))
        if source is not None:
            topics, log = _timed(topics, source), _timed(log, source)
            stages |= {"topics": topics, **({"log": log} if "log" in stages else {})}
        at_ms = time.time_ns() // 1_000_000
        captured = Stage(source.max_lsn, source.max_lsn_ms) if source and source.max_lsn else None
        latency_s = None if source is None else source.capture_latency_s
        tables = tuple(_tables(self._config, source, topics, log, lake))
        reached = {"captured": _stage_lag(captured, at_ms, latency_s)}
        for name, stage in stages.items():
            reached[name] = _stage_lag(stage, at_ms, _waits_s(stage, source, tables, at_ms))
        return Freshness(
            at_ms,
            latency_s,
            reached,
            tables,
            problems,
            None if source is None else source.retention_s,
            None if source is None else source.capture_age_s,
            None if topics is None else topics.published_ms,
            None if source is None else source.capture_error,
        )


def _timed(stage: Stage | None, source: SourceState) -> Stage | None:
    """A stage with the commit time of its LSN, which the source may know where it does not."""
    if stage is None or stage.closed_commit_ms is not None:
        return stage
    return replace(stage, closed_commit_ms=source.times_ms.get(stage.closed_lsn))


def _stage_lag(stage: Stage | None, at_ms: int, lag_s: float | None) -> StageLag:
    if stage is None:
        return StageLag(lag_s=lag_s)
    known_ms = stage.closed_commit_ms
    age = None if known_ms is None else max(0.0, (at_ms - known_ms) / 1000)
    return StageLag(stage.closed_lsn, known_ms, age, lag_s)


def _waits_s(
    stage: Stage | None,
    source: SourceState | None,
    tables: Iterable[TableFreshness],
    at_ms: int,
) -> float | None:
    """How long the oldest change of a table in the cut has waited for a stage."""
    if stage is None or source is None:
        return None
    newest = (t.newest_lsn or "" for t in tables if t.in_cut and t.stopped is None)
    if max(newest, default="") <= stage.closed_lsn:
        return 0.0
    since_ms = source.waiting_ms.get(stage.closed_lsn)
    return None if since_ms is None else max(0.0, (at_ms - since_ms) / 1000)


def _asked(part: str, problems: dict[str, str], ask: Callable[[], _T]) -> _T | None:
    from tailrace_publisher.errors import PublisherError

    try:
        return ask()
    except (StageUnavailable, PublisherError) as error:
        problems[part] = str(error)
        return None


def _source(config: PublisherConfig, lsns: Sequence[str]) -> SourceState:
    from tailrace.lag.source import read_source

    return read_source(config, lsns)


def _tables(
    config: PublisherConfig,
    source: SourceState | None,
    topics: Stage | None,
    log: Stage | None,
    lake: Stage | None,
) -> Iterable[TableFreshness]:
    if source is None:
        return
    for name, newest in sorted(source.newest.items(), key=lambda item: str(item[0]).casefold()):
        topic = topic_of(config, name)
        has_table = lake is None or lake.tables is None or name.path in lake.tables
        applied = lake if has_table else None
        yield TableFreshness(
            table=f"{name.schema}.{name.table}",
            newest_lsn=newest.lsn,
            newest_ms=newest.commit_ms,
            topic_s=lag_s(newest.lsn, newest.commit_ms, topics),
            log_s=lag_s(newest.lsn, newest.commit_ms, log),
            lake_s=lag_s(newest.lsn, newest.commit_ms, applied),
            in_cut=topics is None or topic not in topics.left_out,
            stopped=lake.stopped.get(topic) if lake else None,
        )
