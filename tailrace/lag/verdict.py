"""Whether all is well: one verdict from plain facts, for page, ``status --check`` and doctor.

Pure. Good needs positive evidence: a young progress record, daemons that answered, every stage
below its bound. What nobody watches is a warning, never good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tailrace.lag.forecasts import BAD_S, near_forecasts
from tailrace.lag.stopped_fix import TableFix

CAPTURE_AGE_MAX_S: Final = 120.0
"""Age of the capture job's newest scan above which it counts as stopped."""
KNOWN_AGE_MAX_S: Final = 420.0
"""Age of the moment up to which the source is known above which nothing may be captured.

The capture process marks the time every five minutes at least, also in a quiet database.
See: cdc.lsn_time_mapping; Inferred: that a mark is written by the next scan after five minutes.
"""
LAG_MAX_S: Final = {"captured": 300.0, "topics": 60.0, "log": 300.0, "lake": 300.0}
"""Lag of each stage above which it is bad; the alert rules in compose/monitoring have the same."""
_RECORD_AGE_MIN_S: Final = 30.0
_HEARTBEATS: Final = 3
_NAMES_SHOWN: Final = 5


class _Stage(NamedTuple):
    lags: str
    place: str
    runbook: str


_STAGES: Final = {
    "captured": _Stage("The change tables lag", "any change table", "CaptureJobBehind"),
    "topics": _Stage("The topics lag", "the topics", "PublisherBehind"),
    "log": _Stage("The lake's log lags", "the lake's log", "LakeBehind"),
    "lake": _Stage("The lake's tables lag", "the lake's tables", "LakeBehind"),
}
_START: Final = {"publisher": "tailrace publish", "sink": "tailrace sink"}
_GONE: Final = {"publisher": "PublisherGone", "sink": "SinkGone"}
_RESTARTING: Final = {"publisher": "PublisherRestarting", "sink": "SinkRetrying"}
_DAEMON_STATES: Final = {
    "running": "good",
    "starting": "warn",
    "paused": "warn",
    "ended": "bad",
    "stopped": "bad",
    "retrying": "bad",
}


class State(StrEnum):
    """The verdict in a word."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class DaemonFact:
    """Publisher or sink.

    Attributes:
        state: as it reports it; None if it did not answer or was not asked.
        is_watched: whether its address is known, so that it was asked.
    """

    program: str
    state: str | None
    is_watched: bool = True


@dataclass(frozen=True, slots=True)
class StageFact:
    """A stage of the pipeline: a key of :data:`LAG_MAX_S`.

    Attributes:
        lag_s: how long the oldest change has waited for it; 0.0 if none waits, None if not known.
        has_begun: whether anything has reached it.
    """

    name: str
    lag_s: float | None
    has_begun: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the verdict depends on.

    Attributes:
        daemons: those that the configuration has.
        record_age_s: of the newest progress record; None if none exists.
        heartbeat_s: how often an idle publisher writes one.
        capture_age_s: seconds since the capture job's newest scan without an error; None if it is
            not visible.
        capture_error: the newest error of the capture process, if its newest scan failed.
        known_age_s: age of the moment up to which all commits are published; None if not known.
        tables: how many are captured and selected.
        stopped: those that cannot continue, by name, each with its fix.
        unpublished: names of those that the publisher does not know.
        unread: how many are in their snapshot.
        is_paused: whether an operator has paused the publisher.
        until_loss_s: seconds until the source removes what is not published; None: not known.
        retention_s: how long the source keeps change rows; None: not known.
        figures: of the publisher, by name, with its forecasts.
        broken: places where the chain of progress records is broken.
        problems: why a part could not be asked, by part: source, topics, lake, publisher, ...
    """

    daemons: Sequence[DaemonFact]
    stages: Sequence[StageFact]
    record_age_s: float | None
    heartbeat_s: float
    capture_age_s: float | None
    tables: int
    capture_error: str | None = None
    known_age_s: float | None = None
    stopped: Mapping[str, TableFix] = field(default_factory=dict)
    unpublished: Sequence[str] = ()
    unread: int = 0
    is_paused: bool = False
    until_loss_s: float | None = None
    retention_s: float | None = None
    figures: Mapping[str, float | None] = field(default_factory=dict)
    broken: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


class Finding(NamedTuple):
    """One reason why the verdict is not good.

    Attributes:
        command: what to type next; empty if no command helps.
        runbook: a page under docs/runbooks, without ``.md``; empty if none is about it.
        fix: what to do in words; empty if the command says it.
    """

    state: State
    sentence: str
    command: str = ""
    runbook: str = ""
    fix: str = ""


class Verdict(NamedTuple):
    """A state, and what explains it.

    Attributes:
        headline: one sentence: the gravest finding, or how far the pipeline is.
        findings: the gravest first; none if the state is good.
    """

    state: State
    headline: str
    findings: tuple[Finding, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Of every finding; the headline if there is none."""
        return tuple(finding.sentence for finding in self.findings) or (self.headline,)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "state": self.state,
            "sentences": self.sentences,
            "findings": [finding._asdict() for finding in self.findings],
        }


def verdict(facts: Facts) -> Verdict:
    """Judge the facts."""
    found = tuple(sorted(findings(facts), key=lambda finding: finding.state is not State.BAD))
    if found:
        return Verdict(found[0].state, found[0].sentence, found)
    return Verdict(State.GOOD, _well(facts))


def _well(facts: Facts) -> str:
    tables = f"{facts.tables} table" + ("" if facts.tables == 1 else "s")
    unread = f" {facts.unread} in snapshot." if facts.unread else ""
    for stage in reversed(facts.stages):
        if stage.name != "captured" and stage.lag_s:
            late = f"{_STAGES[stage.name].lags} the source by {duration(stage.lag_s)}."
            return f"All is well: {tables}.{unread} {late}"
    return f"All is well: {tables}.{unread}"


def findings(facts: Facts) -> Iterator[Finding]:
    """Everything that keeps the verdict from being good."""
    yield from _record(facts)
    for part, why in sorted(facts.problems.items()):
        page = _GONE.get(part, "")
        yield Finding(State.BAD, f"{part} did not answer: {why}", "tailrace doctor", page)
    yield from _daemons(facts)
    if facts.stopped:
        yield _stopped(facts)
    if facts.unpublished:
        count = f"The publisher does not know {len(facts.unpublished)} of {facts.tables} tables"
        yield Finding(
            State.WARN,
            f"{count}: {_names(facts.unpublished)}. It finds new ones within a heartbeat; otherwise"
            " its own configuration leaves them out.",
            "tailrace doctor",
        )
    if "source" not in facts.problems:
        yield from _source(facts)
        for stage in facts.stages:
            yield from _stage(stage, facts.problems)
    if facts.broken:
        sentence = f"The ledger is broken in {facts.broken} places."
        yield Finding(State.BAD, sentence, "tailrace audit")


def _stopped(facts: Facts) -> Finding:
    """All stopped tables, with the fix of the first; each card of the page has its own."""
    count = f"{len(facts.stopped)} of {facts.tables} tables cannot continue"
    table, of = next(iter(facts.stopped.items()))
    fix = f"for {table}, {of.text}".strip(", ") if len(facts.stopped) > 1 else of.text
    sentence = f"{count}: {_names(list(facts.stopped))}."
    return Finding(State.BAD, sentence, of.command, of.runbook, fix)


def _names(tables: Sequence[str]) -> str:
    more = len(tables) - _NAMES_SHOWN
    return ", ".join(tables[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _record(facts: Facts) -> Iterator[Finding]:
    """Whether a publisher lives, by what it writes."""
    if "topics" in facts.problems:
        return
    age_s = facts.record_age_s
    if age_s is None:
        yield Finding(State.BAD, "Nothing was published yet.", "tailrace publish", "PublisherGone")
    elif age_s > max(_RECORD_AGE_MIN_S, _HEARTBEATS * facts.heartbeat_s):
        left_s = facts.until_loss_s
        lost = "" if left_s is None else f" Changes are lost in {duration(max(0.0, left_s))}."
        yield Finding(
            State.BAD,
            f"The publisher has been silent for {duration(age_s)}: a running one writes a progress"
            f" record every {duration(facts.heartbeat_s)}.{lost}",
            "tailrace publish",
            "PublisherNotPublishing",
        )


def _daemons(facts: Facts) -> Iterator[Finding]:
    told = {daemon.state for daemon in facts.daemons}
    if facts.is_paused or "paused" in told:
        yield Finding(State.WARN, "The publisher is paused.", "tailrace resume")
    for daemon in facts.daemons:
        name = daemon.program
        if not daemon.is_watched:
            sentence = f"The {name} is not watched: set metrics_port of the {name}."
            yield Finding(State.WARN, sentence)
        elif daemon.state is None:
            if name not in facts.problems:
                yield Finding(State.BAD, f"The {name} did not answer.", _START[name], _GONE[name])
        elif daemon.state != "paused":
            state = State(_DAEMON_STATES.get(daemon.state, "bad"))
            if state is not State.GOOD:
                sentence = f"The {name} is {daemon.state}."
                yield Finding(state, sentence, "tailrace doctor", _RESTARTING[name])


def _source(facts: Facts) -> Iterator[Finding]:
    """Whether the source captures, and keeps what is not yet published."""
    if not facts.tables:
        sentence = "No table is captured and selected."
        yield Finding(State.WARN, sentence, "tailrace enable dbo.orders")
    age_s, left_s, kept_s = facts.capture_age_s, facts.until_loss_s, facts.retention_s
    if facts.capture_error is not None:
        yield Finding(
            State.BAD,
            f"The capture job's scans of the log fail: {facts.capture_error}".rstrip(". ") + ".",
            "tailrace doctor",
            "CaptureJobStalled",
        )
    elif age_s is None:
        yield Finding(
            State.WARN,
            "The login may not see whether the capture job runs: GRANT VIEW DATABASE STATE to it.",
            "tailrace grants",
        )
    elif age_s > CAPTURE_AGE_MAX_S:
        yield Finding(
            State.BAD,
            f"The capture job has not scanned the log for {duration(age_s)}: start SQL Server"
            " Agent, or EXEC sys.sp_cdc_start_job @job_type = N'capture'.",
            "tailrace doctor",
            "CaptureJobStalled",
        )
    elif _stands_still(facts):
        yield Finding(
            State.BAD,
            f"Nothing is known of the source's last {duration(facts.known_age_s or 0.0)}: the"
            " capture job scans the log, but does not get on. In an availability group it waits for"
            " each secondary: look for one that is down or suspended.",
            "tailrace doctor",
            "CaptureJobBehind",
        )
    for forecast in near_forecasts(facts.figures):
        state = State.BAD if forecast.left_s < BAD_S else State.WARN
        sentence = forecast.sentence.format(duration(forecast.left_s))
        yield Finding(state, sentence, "tailrace doctor", forecast.runbook)
    if left_s is not None and kept_s is not None and left_s < kept_s / 2:
        yield Finding(
            State.BAD,
            f"The source removes what is not published in {duration(max(0.0, left_s))}: raise the"
            " retention of its cleanup job.",
            "tailrace doctor",
            "RetentionInDanger",
        )


def _stands_still(facts: Facts) -> bool:
    """Whether no captured change waits for the topics, and they still do not reach the present.

    A publisher that is paused or silent is a reason of its own.
    """
    waits = any(stage.name == "topics" and stage.lag_s for stage in facts.stages)
    is_moving = not waits and not facts.is_paused and not any(_record(facts))
    return is_moving and (facts.known_age_s or 0.0) > KNOWN_AGE_MAX_S


def _stage(stage: StageFact, problems: Mapping[str, str]) -> Iterator[Finding]:
    of = _STAGES[stage.name]
    if stage.name in problems:
        return
    if not stage.has_begun:
        yield Finding(State.WARN, f"Nothing has reached {of.place} yet.")
    elif stage.lag_s is None:
        yield Finding(State.WARN, f"{of.lags} the source by an unknown time.", "tailrace lag")
    elif stage.lag_s > LAG_MAX_S[stage.name]:
        sentence = f"{of.lags} the source by {duration(stage.lag_s)}."
        yield Finding(State.BAD, sentence, "tailrace lag", of.runbook)


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} d"
