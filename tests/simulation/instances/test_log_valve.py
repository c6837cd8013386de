"""The log is nearly full: tables are given up in order, and nothing is half done (ADR 0090)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.errors import SourceBusy
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.records.shards import Shard
from tailrace_schemas.records.signals import TableOrder
from tailrace_schemas.topics.topic_names import TableName
from tests.simulation.scripted.resting import RestingModel
from tests.simulation.scripted.script import Script, Told, events
from tests.simulation.sqlserver.view import log_space

FOR_S: Final = 1
VALVE: Final[dict[str, Any]] = {
    "log_valve": {"tables": [r"dbo\.audit", r"dbo\.l.*"], "at_percent": 90, "for_s": FOR_S}
}


def published(*tables: str) -> Script:
    """Published tables; all but orders may be given up."""
    script = Script(source=VALVE)
    for name in tables:
        script.create(name, 1, 2)
    script.fill_log(50)
    script.publish(lambda: script.snapshot("audit") == [1, 2] and not script.out_of_cut())
    return script


def three_tables() -> Script:
    """A change of the one that stays is not published yet."""
    script = published("orders", "lines", "audit")
    script.update("orders", 1, 10)
    return script


@pytest.fixture
def script() -> Script:
    return three_tables()


def given_up(told: Told) -> list[str]:
    return [event["table"].rpartition(".")[2] for event in events(told, "capture_given_up")]


def passed(script: Script, seconds: float) -> Callable[[], bool]:
    """Whether so much time has passed since now."""
    until = script.seconds + seconds
    return lambda: script.seconds > until


def fill_until_one_goes(script: Script) -> None:
    """The log is nearly full until the first table is given up."""
    script.fill_log(95)
    script.before_change(lambda: script.fill_log(50))


def until_given_up(script: Script) -> Told:
    """A life in which the first table is given up."""
    fill_until_one_goes(script)
    return script.publish(lambda: not script.instances("audit"))


def test_the_first_table_goes_and_comes_back_with_a_snapshot(script: Script) -> None:
    told = until_given_up(script)
    (event,) = events(told, "capture_given_up")
    assert (event["table"], event["capture_instances"]) == ("shop.dbo.audit", ["dbo_audit"])
    assert event["log_used_percent"] == 95
    stopped = events(told, "table_stopped")[0]
    assert (stopped["error"], stopped["table"]) == ("CaptureGivenUp", "shop.dbo.audit")
    assert "Changes after 0" in stopped["reason"]
    assert "tailrace enable dbo.audit" in stopped["reason"]

    script.fill_log(80)
    script.update("orders", 2, 20)
    script.insert("audit", 3)
    named = {"include": ["dbo.orders", "dbo.lines", "dbo.audit"]}  # which must be captured
    told = script.publish(lambda: script.notes("orders") == {1: 10, 2: 20}, tables=named)
    assert script.out_of_cut() == {"audit"}
    assert given_up(told) == []
    (missing,) = events(told, "table_stopped")
    assert "source.log_valve gave up its capture" in missing["reason"], "a new process says it, too"

    script.enable("audit")
    script.publish(lambda: not script.out_of_cut())
    assert script.snapshot("audit") == [1, 1, 2, 2, 3]
    assert script.snapshot("orders") == [1, 2]


@pytest.mark.parametrize("tables", [("orders", "audit"), ("audit",)], ids=["one", "the only one"])
def test_it_comes_back_in_the_same_life(tables: tuple[str, ...]) -> None:
    script = published(*tables)
    is_noticed = passed(script, 5)

    def is_back() -> bool:
        if not script.instances("audit") and is_noticed():
            script.enable("audit")
        return script.snapshot("audit") == [1, 1, 2, 2] and not script.out_of_cut()

    fill_until_one_goes(script)
    told = script.publish(is_back)
    assert given_up(told) == ["audit"]
    assert len(events(told, "table_restarted")) == 1


def test_the_next_one_goes_only_after_the_first_had_time(script: Script) -> None:
    at: list[float] = []

    def note() -> None:
        at.append(script.seconds)
        script.before_change(note)

    script.before_change(note)
    script.fill_log(95)
    told = script.publish(lambda: not script.instances("lines"))
    assert given_up(told) == ["audit", "lines"]
    assert at[1] - at[0] >= FOR_S
    assert script.instances("orders")

    told = script.publish(passed(script, 5))
    assert given_up(told) == []
    (waiting,) = events(told, "log_valve_waiting")
    assert waiting["reason"] == "no table of source.log_valve.tables is captured any more"


@pytest.mark.parametrize(("percent", "waits_for"), [(89, "REPLICATION"), (95, "LOG_BACKUP")])
def test_nothing_goes_while_the_log_has_room_or_waits_for_something_else(
    script: Script, percent: float, waits_for: str
) -> None:
    script.fill_log(percent, waits_for)
    told = script.publish(passed(script, 5))
    assert given_up(told) == []
    assert script.instances("audit")
    assert not script.out_of_cut()


def test_nothing_goes_while_the_capture_process_stands_still(script: Script) -> None:
    script.scan()
    script.fill_log(95)
    told = script.publish(passed(script, 5), scans=False)
    assert script.instances("audit")
    (waiting,) = events(told, "log_valve_waiting")
    assert "frees no log" in waiting["reason"]
    assert "sp_cdc_start_job" in waiting["reason"]


def no_owner(script: Script) -> None:
    script.may_change(is_owner=False)


def no_limit(script: Script) -> None:
    script.fill_log(95, has_limit=False)


@pytest.mark.parametrize(("spoil", "named"), [(no_owner, "db_owner"), (no_limit, "have no limit")])
def test_what_it_lacks_is_known_before_any_table_is_stopped(
    script: Script, spoil: Callable[[Script], None], named: str
) -> None:
    script.fill_log(95)
    spoil(script)
    told = script.publish(passed(script, 5))
    (refused,) = events(told, "log_valve_refused")
    assert named in refused["reason"]
    assert "Fix: " in refused["reason"]
    assert not script.out_of_cut()
    assert script.instances("audit")


def assert_whole_again(script: Script) -> None:
    """The log has room; what is not captured any more is captured again: nothing is missing."""
    script.fill_log(50)
    for table in ("audit", "lines"):
        if not script.instances(table):
            script.enable(table)
    script.insert("audit", 7)
    told = script.publish(
        lambda: (
            not script.out_of_cut()
            and all(script.notes(t) == script.source_notes(t) for t in ("orders", "audit"))
        )
    )
    assert not events(told, "table_stopped")
    assert script.changes("orders") == [("u", 1)]
    assert script.snapshot("orders") == script.snapshot("lines") == [1, 2]


def test_a_kill_at_any_call_leaves_nothing_half_done(script: Script) -> None:
    disabled: list[int] = []
    script.before_change(lambda: disabled.append(script.calls))
    script.fill_log(95)
    script.publish(lambda: bool(disabled))
    states = set()
    for number, calls in enumerate(range(disabled[0] - 60, disabled[0] + 12, 2)):
        script = three_tables()
        fill_until_one_goes(script)
        script.die_after(calls)
        states.add((bool(script.out_of_cut()), bool(script.instances("audit"))))
        if number % 2 and script.instances("audit"):  # the log is still full
            until_given_up(script)
            assert script.instances("lines")
        assert_whole_again(script)
    assert states == {(False, True), (True, True), (True, False)}, "it was killed at every step"


def test_an_answer_that_is_lost_is_no_error(script: Script) -> None:
    script.fill_log(95)
    script.lose_answer()
    until = passed(script, 5)
    told = script.publish(lambda: not script.instances("audit") and until())
    assert given_up(told)[0] == "audit"
    assert events(told, "capture_given_up")[0]["capture_instances"] == []


@pytest.mark.parametrize("is_made_again", [False, True])
def test_somebody_else_who_disables_it_first_is_no_error(
    script: Script, *, is_made_again: bool
) -> None:
    def disable() -> None:
        script.disable("dbo_audit")
        if is_made_again:
            script.enable("audit", "theirs")
        script.fill_log(50)

    script.before_change(disable)
    script.fill_log(95)
    until = passed(script, 5)
    told = script.publish(lambda: script.out_of_cut() == {"audit"} and until())
    assert not events(told, "log_valve_refused")
    assert list(script.instances("audit")) == ["theirs"] * is_made_again
    if not is_made_again:
        script.enable("audit")
    script.publish(lambda: not script.out_of_cut())
    assert script.snapshot("audit") == [1, 1, 2, 2]


def test_a_table_that_was_stopped_before_goes_like_others(script: Script) -> None:
    script.order(TableOrder.STOP_TABLE, "audit")
    script.publish(lambda: script.out_of_cut() == {"audit"})
    (event,) = events(until_given_up(script), "capture_given_up")
    assert "since it was stopped, before that" in event["reason"]


def test_a_snapshot_that_is_asked_for_meanwhile_keeps_the_capture(script: Script) -> None:
    def meet_a_lock() -> None:
        script.ask_for("audit")
        script.fill_log(50)
        raise SourceBusy("a lock was not granted in time")

    script.before_change(meet_a_lock)
    script.fill_log(95)
    until = passed(script, 5)
    told = script.publish(lambda: script.snapshot("audit") == [1, 1, 2, 2] and until())
    assert given_up(told) == []
    assert script.instances("audit")


def test_each_shard_gives_up_its_own_tables_in_the_common_order() -> None:
    model = RestingModel(poll_interval_ms=200)
    model.sim.source.features.log = log_space(95)
    names = [t.called for t in model.sim.group.database.tables.values() if t.name]
    found = {TableName(model.options["source"]["database"], "dbo", name) for name in names}
    whole = PublisherConfig.load({**model.options, "shards": {"count": 2}})
    reshard(whole, model.ports())
    agreed = agreed_map(whole, model.ports())
    owners = {table: agreed.shard_of(whole.topics.data(table)) for table in found}
    first = next(table for table, owner in owners.items() if owner == 1)
    second = next(table for table, owner in owners.items() if owner == 0)
    valve = {"tables": [f"dbo\\.{t.table}" for t in (first, second)], "for_s": FOR_S}
    config = PublisherConfig.load(
        {**whole.model_dump(), "source": {**model.options["source"], "log_valve": valve}}
    )

    def captured() -> list[bool]:
        database = model.sim.group.database
        ids = {t.called: t.object_id for t in database.tables.values()}
        return [bool(database.instances_of(ids[t.table])) for t in (first, second)]

    after, logs = [], []
    for number in (0, 1, 0):
        with capture_logs() as told:
            model.run(config, Shard(number, agreed), 800, marks_time=True)
        after.append(captured())
        logs.append(list(told))
    assert after == [[True, True], [False, True], [False, False]]
    assert not events(logs[0], "table_stopped")
    (waiting, *_) = events(logs[0], "log_valve_waiting")
    assert f"table {first} comes first" in waiting["reason"]
    assert [given_up(told) for told in logs[1:]] == [[first.table], [second.table]]
