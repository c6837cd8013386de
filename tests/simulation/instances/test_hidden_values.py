"""No mask and no hidden row reaches a topic (ADR 0118), and each fault shows.

The login reads 0 for every note that is masked. A security policy hides the rows with even ids.
"""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import PreflightError
from tailrace_publisher.runtime import Step
from tests.simulation.mutants import put_back
from tests.simulation.scripted.script import Script, Told, events

NO_DATA = {"snapshot": {"mode": "no_data"}}


@pytest.fixture
def script() -> Script:
    """Two tables, published; the login has no UNMASK, and nothing is masked yet."""
    return _published()


def _published(**options: object) -> Script:
    script = Script(**options).hides_nothing()
    script.create("orders", 1, 2)
    script.create("people", 1, 2)
    script.grant_unmask(is_granted=False)
    script.publish(lambda: not script.out_of_cut())
    return script


def _stopped(told: Told, table: str) -> str:
    (stop,) = (e for e in events(told, "table_stopped") if e["table"] == f"shop.dbo.{table}")
    return str(stop["reason"])


def _refused(told: Told, table: str) -> str:
    (refused,) = events(told, "signal_refused")
    assert refused["table"] == f"shop.dbo.{table}"
    return str(refused["reason"])


def _is_stopped(script: Script, table: str) -> bool:
    return table in script.out_of_cut()


# -- masks of change tables stop the table, in every mode ------------------------------------------


@pytest.mark.parametrize("options", [{}, NO_DATA])
def test_a_mask_of_a_change_table_stops_its_table_alone(options: dict[str, object]) -> None:
    script = _published(**options)
    script.mask("orders", in_change_tables=True)
    script.update("orders", 1, 7)
    script.update("people", 1, 8)
    told = script.publish(lambda: _is_stopped(script, "orders"), **options)
    reason = _stopped(told, "orders")
    assert "columns note" in reason
    assert "cdc.dbo_orders_CT" in reason
    assert "GRANT UNMASK TO [tailrace]" in reason
    assert 0 not in script.notes("orders").values()
    assert ("u", 1) in script.changes("people")
    assert script.out_of_cut() == {"orders"}


@pytest.mark.parametrize("step", [Step.WINDOW, Step.PAGE, Step.HEARTBEAT])
def test_a_mask_that_comes_between_any_two_statements(script: Script, step: Step) -> None:
    def masks() -> None:
        script.mask("orders", in_change_tables=True)

    script.update("orders", 1, 7)
    script.insert("orders", 3)
    script.update("orders", 2, 8)
    script.publish(during=masks, at=step)
    script.update("orders", 1, 9)
    script.publish(lambda: _is_stopped(script, "orders"))
    assert 0 not in script.notes("orders").values()


def test_unmask_that_is_taken_away_and_given_again() -> None:
    script = Script().hides_nothing()
    script.create("orders", 1, 2)
    script.create("people", 1)
    script.mask("orders", in_change_tables=True)
    script.publish(lambda: script.snapshot("orders") == [1, 2])
    script.update("orders", 1, 7)
    script.publish(
        lambda: _is_stopped(script, "orders"),
        during=lambda: script.grant_unmask(is_granted=False),
        at=Step.WINDOW,
    )
    script.grant_unmask(is_granted=True)
    script.publish(lambda: not script.out_of_cut())
    assert script.notes("orders") == script.source_notes("orders") == {1: 7, 2: 2}


def test_a_rotation_that_brings_masks_stops_the_table() -> None:
    script = _published(tables={"schema_change": "rotate"})
    script.mask("orders")
    script.alter("orders", "add", "city")
    script.scan()
    told = script.publish(lambda: _is_stopped(script, "orders"))
    assert "cdc.dbo_orders_r1_CT" in _stopped(told, "orders")
    script.grant_unmask(is_granted=True)
    script.publish(lambda: not script.out_of_cut())
    assert script.notes("orders") == script.source_notes("orders")


def test_a_first_start_names_the_masked_change_table_also_without_a_snapshot() -> None:
    script = Script(**NO_DATA).hides_nothing()
    script.create("orders", 1)
    script.mask("orders", in_change_tables=True)
    script.grant_unmask(is_granted=False)
    with pytest.raises(PreflightError, match=r"cdc\.dbo_orders_CT.*GRANT UNMASK") as refused:
        script.publish()
    assert "no_data" not in str(refused.value)


# -- masks of source tables and security policies refuse reads of rows -----------------------------


def test_a_masked_table_that_is_captured_while_the_publisher_runs(script: Script) -> None:
    def capture() -> None:
        script.create("salaries", 1, 2, is_captured=False)
        script.mask("salaries")
        script.enable("salaries")

    told = script.publish(lambda: _is_stopped(script, "salaries"), during=capture)
    assert "GRANT UNMASK" in _stopped(told, "salaries")
    assert script.snapshot("salaries") == []


@pytest.mark.parametrize("hides", ["mask", "hide_rows"])
@pytest.mark.parametrize("what", ["snapshot", "part", "repair"])
def test_requests_for_rows_are_refused_and_changes_continue(
    script: Script, hides: str, what: str
) -> None:
    getattr(script, hides)("orders")
    before = script.notes("orders"), len(script.snapshot("orders"))
    match what:
        case "snapshot":
            script.ask_for("orders")
        case "part":
            script.ask_for("orders", "[id] = 1")
        case _:
            script.repair("orders", 1, 2)
    told = script.publish(lambda: True)
    reason = _refused(told, "orders")
    assert ("GRANT UNMASK" if hides == "mask" else "snapshot.exempt_policies") in reason
    assert (script.notes("orders"), len(script.snapshot("orders"))) == before
    script.update("orders", 1, 7)
    script.publish(lambda: script.notes("orders")[1] == 7)
    assert script.out_of_cut() == set()


@pytest.mark.parametrize("hides", ["mask", "hide_rows"])
def test_rows_that_are_hidden_while_a_snapshot_reads_them(script: Script, hides: str) -> None:
    script.create("salaries", *range(1, 9))
    told = script.publish(
        lambda: _is_stopped(script, "salaries"),
        during=lambda: getattr(script, hides)("salaries"),
        at=Step.SNAPSHOT_READ,
        snapshot={"mode": "initial", "chunk_rows": 1},
    )
    assert _stopped(told, "salaries")
    found = script.notes("salaries")
    assert all(found[number] == number for number in found)


def test_a_repair_never_deletes_a_row_that_a_policy_hides(script: Script) -> None:
    script.repair("people", 2)
    script.publish(during=lambda: script.hide_rows("people"), at=Step.WINDOW)
    assert script.notes("people") == script.source_notes("people")


def test_a_patch_of_masked_rows_is_given_up_by_name() -> None:
    script = _published(tables={"schema_change": "rotate"})
    script.alter("orders", "add", "city")
    script.set("orders", 1, "city", 100)
    script.enable("orders", "dbo_orders_r1")
    script.mask("orders")  # after both change tables were created, so that these have no masks
    script.scan()
    told = script.publish(lambda: list(script.instances("orders")) == ["dbo_orders_r1"])
    (given_up,) = events(told, "partial_snapshot_given_up")
    assert "GRANT UNMASK" in given_up["reason"]
    assert script.patched("orders") == []
    assert script.out_of_cut() == set()


def test_a_gap_does_not_restart_a_table_with_masks() -> None:
    script = _published(snapshot={"on_gap": "snapshot"})
    script.mask("orders")
    script.update("orders", 1, 7)
    script.scan()
    script.clean("dbo_orders")
    script.update("orders", 1, 8)
    script.scan()
    script.clean("dbo_orders")
    told = script.publish(lambda: _is_stopped(script, "orders"))
    assert "GRANT UNMASK" in _stopped(told, "orders")
    assert 0 not in script.notes("orders").values()


def test_a_policy_that_the_options_exempt_is_read() -> None:
    script = Script(snapshot={"exempt_policies": ["DBO.Own_Rows"]}).hides_nothing()
    script.create("people", 1, 3)
    script.hide_rows("people")
    script.publish(lambda: script.snapshot("people") == [1, 3])
    assert script.out_of_cut() == set()


def test_a_first_start_refuses_rows_that_a_policy_may_hide() -> None:
    script = Script().hides_nothing()
    script.create("people", 1, 2)
    script.hide_rows("people")
    with pytest.raises(PreflightError, match=r"security policy dbo\.own_rows may hide rows"):
        script.publish()


def test_columns_that_are_left_out_may_be_masked() -> None:
    script = Script(columns={"exclude": [r"dbo\.orders\.note"]}).hides_nothing()
    script.create("orders", 1, 2)
    script.mask("orders", in_change_tables=True)
    script.grant_unmask(is_granted=False)
    script.publish(lambda: script.snapshot("orders") == [1, 2])
    script.update("orders", 1, 7)
    script.delete("orders", 2)
    script.publish(lambda: ("d", 2) in script.changes("orders"))
    assert script.out_of_cut() == set()


# -- each fault shows ------------------------------------------------------------------------------


def test_pages_that_do_not_ask_publish_masks(script: Script) -> None:
    with put_back("masked-pages"), put_back("masks-at-starts-only"):
        script.mark_seldom().update("orders", 1, 7)
        script.publish(
            lambda: script.notes("orders")[1] != 1,
            during=lambda: script.mask("orders", in_change_tables=True),
            at=Step.WINDOW,
        )
    assert script.notes("orders")[1] == 0


def test_chunks_that_do_not_ask_publish_masks_and_deletes(script: Script) -> None:
    script.mask("orders")
    script.hide_rows("people")
    script.repair("orders", 1)
    script.repair("people", 2)
    with put_back("masked-chunks"), put_back("requests-for-hidden-rows"):
        script.publish(lambda: ("d", 2) in script.repaired("people"))
    assert script.notes("orders") == {1: 0, 2: 2}


def test_a_refresh_that_does_not_ask_leaves_a_quiet_table_in_the_cut(script: Script) -> None:
    def masks_and_captures() -> None:
        script.mask("orders", in_change_tables=True)
        script.create("further", 1)

    with put_back("masks-at-starts-only"):
        script.publish(lambda: script.snapshot("further") == [1], during=masks_and_captures)
    assert not _is_stopped(script, "orders")


def test_a_refresh_stops_a_quiet_table_whose_change_table_is_masked(script: Script) -> None:
    def masks_and_captures() -> None:
        script.mask("orders", in_change_tables=True)
        script.create("further", 1)

    script.publish(lambda: _is_stopped(script, "orders"), during=masks_and_captures)


def test_a_request_that_does_not_ask_stops_its_table(script: Script) -> None:
    script.mask("orders")
    script.ask_for("orders")
    with put_back("requests-for-hidden-rows"):
        script.publish(lambda: _is_stopped(script, "orders"))
