"""A secondary that is down holds the log reader: its scans find nothing, and it is not green."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tailrace.lag.verdict import DaemonFact, Facts, StageFact, State, verdict
from tailrace_publisher.daemon.session.capture_job_watch import latency_s, scan_age_s
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.log.scan_sessions import scan_sessions
from tests.simulation.scenario import Surroundings
from tests.simulation.scripted import script as scripts

_GROUP = Surroundings(
    2, False, False, 500, "all", True, True, "visible", True, True, None, False, 0
)


def test_a_log_reader_that_waits_for_a_replica_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "_AROUND", _GROUP)
    script = scripts.Script(replicas=2)
    sim, group = script._sim, script._sim.group

    def catch_up() -> None:
        group.ship(group.replicas[1], 10**6)
        group.redo(group.replicas[1], 10**6)

    def scan(*, marks_time: bool = True) -> None:
        """As the capture job: it marks no time while it waits; empty scans share a row."""
        sim.scan(marks_time=marks_time and group.readable_end() == len(group.log.records))
        if group.sessions:
            group.sessions[-1].end_time = group.server.clock.local()

    script.create("orders", 1, 2)
    catch_up()
    script.publish(lambda: not script.out_of_cut(), during=catch_up)
    monkeypatch.setattr(script, "scan", scan)
    for number in range(10, 13):
        script.insert("orders", number)
    with suppress(AssertionError):
        script.publish(lambda: False, during=lambda: script.pass_time(1800))
    lag_s = script._life.metrics.value("tailrace_lag_seconds")
    scan()
    sim.source.tick = lambda: None
    with sim.source.connect(PublisherConfig.load(sim.scenario.options).source) as connection:
        sessions = scan_sessions(connection)

    found = verdict(
        Facts(
            daemons=[DaemonFact("publisher", "running")],
            stages=[StageFact("captured", latency_s(sessions)), StageFact("topics", 0.0)],
            record_age_s=5.0,
            heartbeat_s=10.0,
            capture_age_s=scan_age_s(sessions),
            tables=1,
            known_age_s=lag_s,
        )
    )
    assert found.state is State.BAD
    assert "look for one that is down or suspended" in found.headline
