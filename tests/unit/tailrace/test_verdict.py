"""The verdict is good by positive evidence alone; everything else has its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.lag.stopped_fix import TableFix, fix_of
from tailrace.lag.verdict import DaemonFact, Facts, StageFact, State, verdict

BOTH = (DaemonFact("publisher", "running"), DaemonFact("sink", "running"))
STAGES = tuple(StageFact(name, 0.0) for name in ("captured", "topics", "log", "lake"))
WELL = Facts(
    daemons=BOTH,
    stages=STAGES,
    record_age_s=4.0,
    heartbeat_s=10.0,
    capture_age_s=3.0,
    tables=6,
)

LARGE = TableFix("raise max.message.bytes, then", "tailrace snapshot dbo.a", "TableStopped")


def daemons(publisher: DaemonFact, sink: DaemonFact = BOTH[1]) -> Mapping[str, Any]:
    return {"daemons": (publisher, sink)}


def stages(**changed: StageFact) -> Mapping[str, Any]:
    return {"stages": tuple(changed.get(stage.name, stage) for stage in STAGES)}


def test_with_all_the_evidence_it_is_good():
    assert verdict(WELL) == (State.GOOD, "All is well: 6 tables.", ())
    reading = verdict(replace(WELL, unread=2))
    assert reading == (State.GOOD, "All is well: 6 tables. 2 in snapshot.", ())
    late = verdict(replace(WELL, **stages(lake=StageFact("lake", 4.0))))
    assert late.headline == "All is well: 6 tables. The lake's tables lag the source by 4.0 s."


@pytest.mark.parametrize(
    "changes",
    [
        {"known_age_s": 400.0},  # marks of time come every five minutes
        {"known_age_s": 1800.0, "is_paused": True},
        {"known_age_s": 1800.0, "record_age_s": 1800.0},
        {"known_age_s": 1800.0, "capture_age_s": None},
        {"known_age_s": 1800.0} | stages(topics=StageFact("topics", 50.0)),
    ],
)
def test_what_explains_that_the_present_is_not_known_is_the_only_finding(changes: Any):
    assert "Nothing is known" not in " ".join(verdict(replace(WELL, **changes)).sentences)


def near(**figures: float) -> dict[str, dict[str, float]]:
    """Figures of a publisher."""
    return {"figures": figures}


@pytest.mark.parametrize(
    ("state", "words", "changes"),
    [
        # A dead publisher, first as nobody watches it, then as it does not answer.
        ("bad", "The publisher has been silent for 3 min", {"record_age_s": 180.0}),
        ("bad", "publisher did not answer: refused", {"problems": {"publisher": "refused"}}),
        ("bad", "sink did not answer: refused", {"problems": {"sink": "refused"}}),
        ("bad", "Nothing was published yet.", {"record_age_s": None}),
        (
            "bad",
            "2 of 6 tables cannot continue: dbo.a, dbo.b.",
            {"stopped": {"dbo.a": LARGE, "dbo.b": LARGE}},
        ),
        ("bad", "topics did not answer: away", {"problems": {"topics": "away"}}),
        ("bad", "The topics lag the source by 2 min", stages(topics=StageFact("topics", 130.0))),
        (
            "bad",
            "The lake's tables lag the source by 3.0 h",
            stages(lake=StageFact("lake", 10_800.0)),
        ),
        ("bad", "The lake's log lags the source by 6 min", stages(log=StageFact("log", 360.0))),
        (
            "bad",
            "The change tables lag the source by 10 min",
            stages(captured=StageFact("captured", 600.0)),
        ),
        ("bad", "The publisher is retrying.", daemons(DaemonFact("publisher", "retrying"))),
        ("bad", "The sink is ended.", daemons(BOTH[0], DaemonFact("sink", "ended"))),
        ("bad", "The sink did not answer.", daemons(BOTH[0], DaemonFact("sink", None))),
        ("bad", "The publisher is odd.", daemons(DaemonFact("publisher", "odd"))),
        ("bad", "The capture job has not scanned the log for 5 min", {"capture_age_s": 300.0}),
        (
            "bad",
            "The capture job's scans of the log fail: 12:00:00 error 22859: it failed.",
            {"capture_error": "12:00:00 error 22859: it failed."},
        ),
        ("bad", "The capture job's scans", {"capture_error": "x", "capture_age_s": None}),
        ("bad", "Nothing is known of the source's last 30 min", {"known_age_s": 1800.0}),
        ("bad", "removes what is not published in 1.0 s", {"until_loss_s": 1, "retention_s": 3}),
        (
            "bad",
            "Retention overtakes the publisher in 3.3 h at this rate",
            near(retention_left_seconds=12e3),
        ),
        (
            "warn",
            "Retention overtakes the publisher in 20.0 h at this",
            near(retention_left_seconds=72e3),
        ),
        (
            "bad",
            "transaction log is full in 50 min at this rate: every",
            near(log_full_seconds=3e3),
        ),
        (
            "warn",
            "disk of the source's data files is full in 20.0 h",
            near(disk_full_seconds=72e3),
        ),
        ("bad", "The ledger is broken in 1 places", {"broken": 1}),
        (
            "warn",
            "The publisher is not watched: set metrics_port",
            daemons(DaemonFact("publisher", None, is_watched=False)),
        ),
        ("warn", "The publisher is paused.", {"is_paused": True}),
        ("warn", "The publisher is paused.", daemons(DaemonFact("publisher", "paused"))),
        ("warn", "The publisher is starting.", daemons(DaemonFact("publisher", "starting"))),
        ("warn", "GRANT VIEW DATABASE STATE", {"capture_age_s": None}),
        (
            "warn",
            "The publisher does not know 1 of 6 tables: dbo.a.",
            {"unpublished": ("dbo.a",)},
        ),
        ("warn", "No table is captured and selected.", {"tables": 0}),
        (
            "warn",
            "Nothing has reached the lake's tables yet.",
            stages(lake=StageFact("lake", None, has_begun=False)),
        ),
        ("warn", "by an unknown time", stages(lake=StageFact("lake", None))),
    ],
)
def test_each_lack_of_evidence_has_its_one_sentence(
    state: str, words: str, changes: Mapping[str, Any]
):
    found = verdict(replace(WELL, **changes))
    (sentence,) = found.sentences
    assert (found.state, words in sentence) == (state, True), found


def test_a_record_is_old_after_three_heartbeats_and_never_before_half_a_minute():
    ages = {10.0: 30.0, 60.0: 180.0, 0.1: 30.0}
    for heartbeat_s, bound_s in ages.items():
        facts = replace(WELL, heartbeat_s=heartbeat_s, record_age_s=bound_s)
        assert verdict(facts).state is State.GOOD
        assert verdict(replace(facts, record_age_s=bound_s + 0.1)).state is State.BAD


def test_the_gravest_is_told_first():
    facts = replace(
        WELL, stopped={"dbo.a": LARGE}, **daemons(DaemonFact("publisher", None, is_watched=False))
    )
    found = verdict(facts)
    assert found.state is State.BAD
    assert [sentence.split()[0] for sentence in found.sentences] == ["1", "The"]


def test_a_part_that_is_away_is_told_once():
    """Its consequences (no record, unknown lags) are no news."""
    unknown = tuple(StageFact(name, None, has_begun=False) for name in ("topics", "lake"))
    facts = replace(WELL, record_age_s=None, stages=unknown)
    away = {"source": "login failed", "topics": "no broker answers"}
    assert len(verdict(replace(facts, problems=away)).sentences) == 2
    many = verdict(replace(WELL, stopped={f"t{n}": LARGE for n in range(9)}))
    assert many.sentences == ("9 of 6 tables cannot continue: t0, t1, t2, t3, t4 and 4 more.",)


def test_what_to_do_is_said_with_a_runbook_that_exists():
    facts = replace(
        WELL,
        problems={"publisher": "refused", "lake": "away"},
        record_age_s=500.0,
        stopped={"dbo.a": LARGE},
        capture_age_s=900.0,
        until_loss_s=1.0,
        retention_s=3.0,
        broken=1,
        stages=tuple(StageFact(stage.name, 100_000.0) for stage in STAGES),
        daemons=(DaemonFact("publisher", "retrying"), DaemonFact("sink", None)),
    )
    found = verdict(facts).findings
    assert len(found) == 12
    assert all(finding.command.startswith("tailrace ") for finding in found), found
    runbooks = {file.stem for file in Path("docs/runbooks").glob("[A-Z]*.md")}
    assert {finding.runbook for finding in found} <= {"", *runbooks}
    assert "Changes are lost in 1.0 s." in found[0].sentence


@pytest.mark.parametrize(
    ("reason", "text", "command"),
    [
        (
            "publisher: RecordTooLarge: MSG_SIZE_TOO_LARGE. Fix: raise max.message.bytes",
            "raise max.message.bytes, then",
            "tailrace snapshot dbo.docs",
        ),
        (
            "publisher: TopicCompacted: it is. Fix: kafka-configs --alter --entity-name t"
            " --add-config cleanup.policy=delete, and take a new snapshot",
            "kafka-configs --alter --entity-name t --add-config cleanup.policy=delete, and take a"
            " new snapshot",
            "kafka-configs --alter --entity-name t --add-config cleanup.policy=delete",
        ),
        (
            "sink: it differs. Fix: take a new snapshot (tailrace snapshot 'dbo.a b'): it waits",
            "take a new snapshot (tailrace snapshot 'dbo.a b'): it waits",
            "tailrace snapshot 'dbo.a b'",
        ),
        (
            "publisher: its snapshot was stopped; tailrace snapshot takes a new one",
            "",
            "tailrace snapshot dbo.docs",
        ),
        ("publisher: not reported", "remove the cause, then", "tailrace snapshot dbo.docs"),
    ],
)
def test_the_fix_of_a_stopped_table_is_that_of_its_reason(reason: str, text: str, command: str):
    runbook = "LakeTableStopped" if reason.startswith("sink") else "TableStopped"
    assert fix_of("dbo.docs", "stopped", reason) == (text, command, runbook)


def test_a_table_that_is_not_captured_gets_its_snapshot_without_a_command():
    found = fix_of("dbo.a", "missing", "publisher: the table is not captured any more")
    assert found == ("", "tailrace doctor", "TableStopped")


def test_with_several_stopped_tables_the_fix_says_whose_it_is():
    (found,) = verdict(replace(WELL, stopped={"dbo.a": LARGE, "dbo.b": LARGE})).findings
    assert (found.fix, found.command) == (f"for dbo.a, {LARGE.text}", LARGE.command)
