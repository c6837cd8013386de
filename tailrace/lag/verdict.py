"""Whether all is well: one verdict from plain facts, for page, ``status --check`` and doctor.

Pure. Good needs positive evidence: a young progress record, daemons that answered, every stage
below its bound. What nobody watches is a warning, never good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

CAPTURE_AGE_MAX_S: Final = 120.0
"""Age of the capture job's newest scan above which it counts as stopped."""
LAG_MAX_S: Final = {"captured": 300.0, "topics": 60.0, "log": 300.0, "lake": 300.0}
"""Lag of each stage above which it is bad; the alert rules in compose/monitoring have the same."""
_RECORD_AGE_MIN_S: Final = 30.0
_HEARTBEATS: Final = 3
_NAMES_SHOWN: Final = 5
_STAGES: Final = {
    "captured": ("The change tables lag", "any change table"),
    "topics": ("The topics lag", "the topics"),
    "log": ("The lake's log lags", "the lake's log"),
    "lake": ("The lake's tables lag", "the lake's tables"),
}
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
        record_age_s: of the newest progress record, of the shard whose is oldest; None: there is
            none.
        heartbeat_s: how often an idle publisher writes one.
        capture_age_s: seconds since the capture job's newest scan; None: the login may not see it.
        tables: how many are captured and selected.
        stopped: names of those that cannot continue.
        unpublished: names of those that the publisher does not know.
        unread: how many are in their snapshot.
        is_paused: whether an operator has paused the publisher.
        until_loss_s: seconds until the source removes what is not published; None: not known.
        retention_s: how long the source keeps change rows; None: not known.
        broken: places where the chain of progress records is broken.
        problems: why a part could not be asked, by part: source, topics, lake, publisher, ...
    """

    daemons: Sequence[DaemonFact]
    stages: Sequence[StageFact]
    record_age_s: float | None
    heartbeat_s: float
    capture_age_s: float | None
    tables: int
    stopped: Sequence[str] = ()
    unpublished: Sequence[str] = ()
    unread: int = 0
    is_paused: bool = False
    until_loss_s: float | None = None
    retention_s: float | None = None
    broken: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


class Verdict(NamedTuple):
    """A state, and the sentences that explain it: the gravest first."""

    state: State
    sentences: tuple[str, ...]


def verdict(facts: Facts) -> Verdict:
    """Judge the facts."""
    found = sorted(findings(facts), key=lambda finding: finding[0] is not State.BAD)
    if found:
        return Verdict(found[0][0], tuple(sentence for _, sentence in found))
    tables = f"{facts.tables} table" + ("" if facts.tables == 1 else "s")
    unread = f" {facts.unread} in snapshot." if facts.unread else ""
    return Verdict(State.GOOD, (f"All is well: {tables}.{unread}",))


def findings(facts: Facts) -> Iterator[tuple[State, str]]:
    """Everything that keeps the verdict from being good: how grave, and a sentence."""
    for part, why in sorted(facts.problems.items()):
        yield State.BAD, f"{part} did not answer: {why}"
    yield from _record(facts)
    yield from _daemons(facts)
    if facts.stopped:
        count = f"{len(facts.stopped)} of {facts.tables} tables cannot continue"
        yield State.BAD, f"{count}: {_names(facts.stopped)}."
    if facts.unpublished:
        count = f"The publisher does not know {len(facts.unpublished)} of {facts.tables} tables"
        yield (
            State.WARN,
            f"{count}: {_names(facts.unpublished)}. It finds new ones within a heartbeat; otherwise"
            " its own configuration leaves them out.",
        )
    if "source" not in facts.problems:
        yield from _source(facts)
        for stage in facts.stages:
            yield from _stage(stage, facts.problems)
    if facts.broken:
        yield State.BAD, f"The ledger is broken in {facts.broken} places: run tailrace audit."


def _names(tables: Sequence[str]) -> str:
    more = len(tables) - _NAMES_SHOWN
    return ", ".join(tables[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _record(facts: Facts) -> Iterator[tuple[State, str]]:
    """Whether a publisher lives, by what it writes."""
    if "topics" in facts.problems:
        return
    age_s = facts.record_age_s
    if age_s is None:
        yield State.BAD, "There is no progress record: start the publisher (tailrace publish)."
    elif age_s > max(_RECORD_AGE_MIN_S, _HEARTBEATS * facts.heartbeat_s):
        yield (
            State.BAD,
            f"No publisher has written a progress record for {duration(age_s)}; one that runs"
            f" writes one every {duration(facts.heartbeat_s)}: start it, or read its log.",
        )


def _daemons(facts: Facts) -> Iterator[tuple[State, str]]:
    told = {daemon.state for daemon in facts.daemons}
    if facts.is_paused or "paused" in told:
        yield State.WARN, "The publisher is paused: tailrace resume ends the pause."
    for daemon in facts.daemons:
        name = daemon.program
        if not daemon.is_watched:
            yield State.WARN, f"The {name} is not watched: set metrics_port of the {name}."
        elif daemon.state is None:
            if name not in facts.problems:
                yield State.BAD, f"The {name} did not answer."
        elif daemon.state != "paused":
            state = State(_DAEMON_STATES.get(daemon.state, "bad"))
            if state is not State.GOOD:
                yield state, f"The {name} is {daemon.state}."


def _source(facts: Facts) -> Iterator[tuple[State, str]]:
    """Whether the source captures, and keeps what is not yet published."""
    if not facts.tables:
        yield State.WARN, "No table is captured and selected."
    age_s, left_s, kept_s = facts.capture_age_s, facts.until_loss_s, facts.retention_s
    if age_s is None:
        yield (
            State.WARN,
            "The login may not see whether the capture job runs: GRANT VIEW DATABASE STATE to it.",
        )
    elif age_s > CAPTURE_AGE_MAX_S:
        yield (
            State.BAD,
            f"The capture job has not scanned the log for {duration(age_s)}: start SQL Server"
            " Agent, or EXEC sys.sp_cdc_start_job @job_type = N'capture'.",
        )
    if left_s is not None and kept_s is not None and left_s < kept_s / 2:
        yield (
            State.BAD,
            f"The source removes what is not published in {duration(max(0.0, left_s))}: raise the"
            " retention of its cleanup job.",
        )


def _stage(stage: StageFact, problems: Mapping[str, str]) -> Iterator[tuple[State, str]]:
    subject, place = _STAGES[stage.name]
    if stage.name in problems:
        return
    if not stage.has_begun:
        yield State.WARN, f"Nothing has reached {place} yet."
    elif stage.lag_s is None:
        yield State.WARN, f"{subject} the source by an unknown time."
    elif stage.lag_s > LAG_MAX_S[stage.name]:
        yield State.BAD, f"{subject} the source by {duration(stage.lag_s)}."


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} d"
