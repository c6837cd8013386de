"""The publisher changes a source only where its own history is proven to be (ADR 0114)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tailrace_publisher.daemon.upkeep import cleanup as upkeep_cleanup
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.runtime import Step
from tests.simulation.mutants import put_back
from tests.simulation.scripted.script import Script, events
from tests.simulation.sqlserver import statements
from tests.simulation.world import Finding

_CLEANS = {"wait_for": "topics", "every_s": 1}
_ROTATE = {"schema_change": "rotate"}


def shop(*tables: str, **options: Any) -> Script:
    """Published tables of two rows."""
    script = Script(**options)
    for name in tables:
        script.create(name, 1, 2)
    script.publish(lambda: not script.out_of_cut(), cleanup={"wait_for": "off"})
    return script


def passed(script: Script, seconds: float) -> Callable[[], bool]:
    """Whether so much time has passed since now."""
    until = script.seconds + seconds
    return lambda: script.seconds > until


def replaced_amid_a_commit(mutant: str | None = None) -> Script:
    """The database is restored during a commit, and captures changes at LSNs that came before."""
    script = shop("lost", "own", "stopped", cleanup=_CLEANS, heartbeat_s=60).mark_seldom()
    script.rename("stopped", "renamed")  # what is not cleaned keeps the commit times
    script.insert("lost", 9)
    script.publish(lambda: script.changes("lost")[-1:] == [("c", 9)])
    restore = script.backup()
    for number in range(10, 30):
        script.insert("lost", number)
    script.publish(lambda: script.changes("lost")[-1] == ("c", 29))

    def is_replaced() -> None:
        script.pass_time(3)
        restore()
        script.insert("own", 77)
        script.delete("own", 1)
        script.insert("lost", 60, 61)
        script.scan()

    script.insert("lost", 30)
    # Cleanup looked once when the session began; when the commit is over, it is due.
    rarely = {"wait_for": "topics", "every_s": 2}
    with put_back(mutant), pytest.raises(PublisherError):
        script.publish(lambda: False, during=is_replaced, at=Step.COMMITTED, cleanup=rarely)
    return script


def test_cleanup_takes_nothing_from_a_history_that_was_not_published() -> None:
    script = replaced_amid_a_commit()
    assert len(script.commits("dbo_own")) == 2

    for number in range(100, 200):
        script.insert("lost", number)
    script.scan()
    through = script.accept().lost.through
    script.insert("own", 78)
    script.publish(
        lambda: (
            script.changes("own")[-1:] == [("c", 78)] and not script.out_of_cut() & {"own", "lost"}
        )
    )
    for table in ("own", "lost"):
        assert script.notes(table, through) == script.source_notes(table)


def test_after_an_acceptance_cleanup_goes_on() -> None:
    script = replaced_amid_a_commit()
    for number in range(100, 200):
        script.insert("lost", number)
    script.scan()
    script.accept()
    script.insert("own", 78)
    script.publish(
        lambda: len(script.commits("dbo_own")) <= 1 and len(script.commits("dbo_lost")) <= 1,
        heartbeat_s=2,
    )


def test_cleanup_that_proves_nothing_is_found() -> None:
    with pytest.raises(Finding, match="are not published"):
        replaced_amid_a_commit("any-database")


def test_a_change_whose_batch_does_not_look_again_is_found() -> None:
    script = shop("orders", cleanup=_CLEANS)
    script.insert("orders", 3)
    with put_back("unguarded"), pytest.raises(Finding, match="without a proof"):
        script.publish(lambda: len(script.commits("dbo_orders")) <= 1)


def with_a_copy(**options: Any) -> Script:
    """source.primary.host names a copy that has other changes at published LSNs."""
    script = shop("lost", "own", **options)

    def at_the_copy() -> None:
        script.insert("own", 77)
        script.delete("own", 1)
        for number in range(50, 60):
            script.insert("lost", number)
        script.scan()

    def at_the_database() -> None:
        for number in range(10, 30):
            script.insert("lost", number)
        script.scan()

    script.scan()
    script.copy("copy", before=at_the_database, after=at_the_copy)
    script.publish(cleanup={"wait_for": "off"})
    return script


def test_cleanup_at_another_database_is_refused_by_name() -> None:
    script = with_a_copy(cleanup=_CLEANS, source={"primary": {"host": "copy"}})
    had = script.rows_at("copy", "dbo_own"), script.rows_at("copy", "dbo_lost")

    told = script.publish(passed(script, 5), is_whole=False)

    (refused,) = events(told, "cleanup_refused")
    assert "database shop: it is not proven to hold what was published" in refused["reason"]
    assert "cdc.lsn_time_mapping" in refused["reason"]
    assert "let source.primary.host name the primary" in refused["reason"]
    assert (script.rows_at("copy", "dbo_own"), script.rows_at("copy", "dbo_lost")) == had
    assert len(script.changes("lost")) == 20


def test_rotation_at_another_database_is_refused_by_name() -> None:
    script = with_a_copy(tables=_ROTATE, source={"primary": {"host": "copy"}}).mark_seldom()
    script.alter("own", "add", "city")
    had = script.instances_at("copy")

    told = script.publish(passed(script, 10), during=lambda: script.update("own", 2, 20))

    refused = events(told, "rotation_refused")[0]
    assert "cannot create capture instance dbo_own_r1" in refused["reason"]
    assert "let source.primary.host name the primary" in refused["reason"]
    assert script.instances_at("copy") == had


def test_a_readable_secondary_that_is_suspended_proves_nothing_of_the_primary() -> None:
    """Existing connections to it stay usable (See: Suspend an Availability Database)."""
    script = Script(
        replicas=3,
        passes_async=True,
        cleanup=_CLEANS,
        source={"application_intent": "ReadOnly"},
    )
    for name in ("lost", "own"):
        script.create(name, 1, 2)
    script.scan()
    script.publish(lambda: not script.out_of_cut(), cleanup={"wait_for": "off"})
    script.take_down(1)  # everything is read at the third one
    script.publish(lambda: not script.out_of_cut(), cleanup={"wait_for": "off"})
    for number in range(10, 30):
        script.insert("lost", number)
    script.scan()
    had = 0

    def fail_over() -> None:
        nonlocal had
        script.suspend(loses=6)
        script.insert("own", 77)
        script.delete("own", 1)
        for number in range(50, 60):
            script.insert("lost", number)
        script.scan()
        had = len(script.commits("dbo_own"))

    told = script.publish(passed(script, 20), during=fail_over, scans=False, is_whole=False)

    assert had
    assert len(script.commits("dbo_own")) == had
    assert events(told, "cleanup_refused")
    assert not events(told, "retrying"), "its connections are usable"


def test_a_planned_failover_is_no_other_history() -> None:
    script = Script(replicas=2, cleanup=_CLEANS)
    script.create("orders", 1)
    script.scan()
    script.publish(lambda: not script.out_of_cut())
    for number in range(2, 8):
        script.insert("orders", number)
    script.scan()
    script.plan_failover()
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1)


def of_times_that_come_twice(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Commit times that come again while a table that stopped keeps those of the first time."""
    monkeypatch.setattr("tailrace_publisher.source.log.cleanup.COMMITS_MAX", 2)
    script = shop("orders", "other", "stopped", cleanup=_CLEANS).mark_seldom()
    script.rename("stopped", "renamed")
    began = script.seconds
    for number in range(3, 9):
        script.insert("orders", number)
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1)
    script.repeat_time_since(began)
    for number in range(9, 15):
        script.insert("orders", number)
        script.insert("other", number)
    return script


def test_commit_times_that_come_twice_do_not_hold_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    script = of_times_that_come_twice(monkeypatch)
    script.publish(
        lambda: len(script.commits("dbo_orders")) <= 1 and len(script.commits("dbo_other")) <= 1
    )


def test_cleanup_that_repeats_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = of_times_that_come_twice(monkeypatch)
    with put_back("moves-nothing"), pytest.raises(Finding, match="moves nothing"):
        script.publish(lambda: len(script.commits("dbo_other")) <= 1)


def test_a_change_that_gets_no_lock_waits_longer_each_time() -> None:
    script = shop("orders", tables=_ROTATE)
    script.alter("orders", "add", "city")
    script.lock_changes(2)

    def is_created() -> bool:
        script.pass_time(0.1)
        return "dbo_orders_r1" in script.instances("orders")

    told = script.publish(is_created, during=lambda: script.update("orders", 1, 10), is_whole=False)

    assert [event["pause_s"] for event in events(told, "rotation_retried")] == [30, 60]


def test_a_change_that_is_sent_again_at_once_is_found() -> None:
    script = shop("orders", tables=_ROTATE)
    script.alter("orders", "add", "city")
    script.lock_changes(1)
    with put_back("changes-tried"), pytest.raises(Finding, match="sent again at once"):
        script.publish(passed(script, 60), during=lambda: script.update("orders", 1, 10))


def dropped_amid(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present instance goes between the two statements that describe it."""
    answer, left = statements.answer, [1]

    def answered(view: Any, text: str, parameters: Any) -> Any:
        if text.startswith("SELECT ct.role_name") and left:
            left.pop()
            script.disable("dbo_orders")
        return answer(view, text, parameters)

    monkeypatch.setattr(statements, "answer", answered)


def test_an_instance_that_goes_while_its_successor_is_created_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = shop("orders", "other", tables=_ROTATE)
    dropped_amid(script, monkeypatch)
    script.alter("orders", "add", "city")

    told = script.publish(
        lambda: script.notes("other").get(1) == 10, during=lambda: script.update("other", 1, 10)
    )

    assert len(events(told, "rotation_overtaken")) == 1
    assert not events(told, "unexpected_error")


def failing_for_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = upkeep_cleanup.remove_below

    def removed(source: Any, instance: Any, mark: Any) -> Any:
        if instance.name == "dbo_orders":
            raise ZeroDivisionError
        return remove(source, instance, mark)

    monkeypatch.setattr(upkeep_cleanup, "remove_below", removed)


def test_a_fault_in_cleaning_one_table_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    script = shop("orders", "other", cleanup=_CLEANS)
    failing_for_orders(monkeypatch)
    for number in range(3, 9):
        script.insert("orders", number)
        script.insert("other", number)

    told = script.publish(lambda: len(script.commits("dbo_other")) <= 1)

    (refused,) = events(told, "cleanup_refused")
    assert refused["table"] == "shop.dbo.orders"
    assert "ZeroDivisionError" in refused["reason"]
    assert refused["again_in_s"] == 300
    (named,) = events(told, "unexpected_error")
    assert named["doing"] == "removing change rows of dbo_orders"
    assert len(script.commits("dbo_orders")) == 6


def test_a_fault_in_a_thread_of_upkeep_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    script = shop("orders", cleanup=_CLEANS)

    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(upkeep_cleanup, "change_tables", fails)
    script.insert("orders", 3)
    told = script.publish(lambda: script.changes("orders") == [("c", 3)])
    script.insert("orders", 4)
    told += script.publish(passed(script, 5))
    assert events(told, "cleanup_refused")
    assert script.changes("orders") == [("c", 3), ("c", 4)]

    script.insert("orders", 5)
    with put_back("faults-end-all"), pytest.raises(ZeroDivisionError):
        script.publish(passed(script, 5))


def test_a_server_without_the_procedure_is_refused_and_stops_nothing() -> None:
    script = shop("orders", cleanup=_CLEANS)
    script.miss_procedure("sys.sp_cdc_cleanup_change_table")
    for number in range(3, 9):
        script.insert("orders", number)

    told = script.publish(passed(script, 5))

    (refused,) = events(told, "cleanup_refused")
    assert "Could not find stored procedure" in refused["reason"]
    assert len(script.commits("dbo_orders")) == 6


def test_a_table_that_waits_for_a_newer_instance_is_named_once() -> None:
    script = shop("orders", "other", cleanup=_CLEANS)
    script.alter("orders", "add", "city")
    for number in range(3, 9):
        script.insert("orders", number)
        script.insert("other", number)

    told = script.publish(lambda: len(script.commits("dbo_other")) <= 1)

    (waiting,) = events(told, "cleanup_waiting")
    assert waiting["table"] == "shop.dbo.orders"
    assert waiting["reason"] == "capture instance dbo_orders lacks city"
    assert "second capture instance" in waiting["fix"]
    assert len(script.commits("dbo_orders")) == 6

    ignored = {"schema_changes": {"dbo.orders": "ignore"}}
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1, tables=ignored)


def test_one_transaction_of_many_rows_goes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace_publisher.source.log.cleanup.ROWS_MAX", 3)
    script = shop("orders", cleanup=_CLEANS)
    script.insert("orders", *range(10, 20))
    for number in range(20, 26):
        script.insert("orders", number)
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1)


def test_cleanup_that_gets_no_lock_waits_and_other_tables_do_not() -> None:
    script = shop("orders", "other", cleanup=_CLEANS)
    for number in range(3, 9):
        script.insert("orders", number)
        script.insert("other", number)
    script.lock_changes(1)

    told = script.publish(lambda: len(script.commits("dbo_other")) <= 1, is_whole=False)

    (retried,) = events(told, "cleanup_retried")
    assert (retried["table"], retried["pause_s"]) == ("shop.dbo.orders", 30)
    assert len(script.commits("dbo_orders")) == 6
