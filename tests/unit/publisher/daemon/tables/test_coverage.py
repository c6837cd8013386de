"""What holds a table's changes, and when nothing does."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import (
    PublishedTable,
    covers_of,
    fresh_record,
    reading_of,
    still_covered,
)
from tailrace_publisher.daemon.tables.patch import Patch
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.errors import PositionExpired
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("db", "dbo", "t")


def at(number: int) -> Lsn:
    return Lsn(1, number, 1)


def instance(name: str, low: int | None, object_id: int = 0) -> CaptureInstance:
    return CaptureInstance(
        name=name,
        table=TABLE,
        low_watermark=None if low is None else at(low),
        create_date=datetime(2026, 1, 1),  # noqa: DTZ001
        object_id=object_id or sum(map(ord, name)),
        source_object_id=1,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=(),
        key=(),
        identity=(),
    )


def table(*instances: CaptureInstance, **parts: object) -> PublishedTable:
    found = PublishedTable(TABLE, TableInstances(instances))
    for name, value in parts.items():
        setattr(found, name, value)
    return found


FOLLOWED = TableRecord(TableState.FOLLOWED, at(10), ("a", "b"))


def test_the_first_instance_holds_from_where_the_table_is_covered_whatever_cleanup_took():
    found = table(instance("a", 30), instance("b", 50))
    assert covers_of(found, FOLLOWED, at(90), at(90)) == {"a": at(10), "b": at(50)}


def test_what_it_began_with_is_told_by_the_watermarks_not_by_dates_of_a_clock_that_was_put_back():
    found = table(instance("newer", 50), instance("older", 10))
    begins = fresh_record(
        TableRecord(TableState.PENDING), covers_of(found, TableRecord(), at(5), at(5))
    )

    assert (begins.covers_from, begins.instances) == (at(10), ("older", "newer"))
    assert covers_of(found, begins, at(30), at(30)) == {"newer": at(50), "older": at(10)}


def test_the_first_of_those_that_are_left_holds_what_comes_once_that_was_checked():
    found = table(instance("b", 50))
    left = still_covered(
        found, FOLLOWED, covers_of(found, FOLLOWED, at(60), at(60)), at(60), at(60)
    )

    assert (left.covers_from, left.instances) == (at(10), ("b",))
    assert covers_of(table(instance("b", 70)), left, at(80), at(80)) == {"b": at(10)}


def test_an_older_instance_that_goes_before_the_newer_one_holds_what_comes_is_a_lost_place():
    found = table(instance("b", 50))
    with pytest.raises(PositionExpired, match="a was disabled") as raised:
        still_covered(found, FOLLOWED, covers_of(found, FOLLOWED, at(40), at(40)), at(40), at(40))
    assert raised.value.minimum == at(50)


def test_an_instance_that_is_not_recognised_holds_nothing():
    found = table(instance("c", None))
    assert covers_of(found, FOLLOWED, at(90), at(90)) == {}
    with pytest.raises(PositionExpired, match="no other is recognised"):
        still_covered(found, FOLLOWED, {}, at(60), at(60))


def test_an_instance_made_again_under_its_name_is_another_one():
    found = table(instance("a", 70, object_id=2), object_ids={"a": 1}, covers={"a": at(10)})
    record = replace(FOLLOWED, instances=("a",))

    assert covers_of(found, record, at(60), at(60)) == {"a": at(70)}
    with pytest.raises(PositionExpired, match="a was disabled"):
        still_covered(found, record, covers_of(found, record, at(60), at(60)), at(60), at(60))
    assert still_covered(
        found, record, covers_of(found, record, at(80), at(80)), at(80), at(80)
    ).instances == ("a",)


def test_nor_is_one_that_was_made_again_while_nobody_looked():
    """A start has no object ids to compare: what tells is that it lacks what is not out."""
    found = table(instance("b", 50), instance("a", 70))
    covers = covers_of(found, FOLLOWED, at(60), at(60))

    assert covers == {"b": at(50), "a": at(70)}
    assert still_covered(found, FOLLOWED, covers, at(60), at(60)).instances == ("b", "a")

    alone = table(instance("a", 70))
    with pytest.raises(PositionExpired) as raised:
        still_covered(alone, FOLLOWED, covers_of(alone, FOLLOWED, at(60), at(60)), at(60), at(60))
    assert raised.value.minimum == at(70)


def test_a_newer_instance_holds_from_where_it_was_first_seen():
    found = table(instance("a", 90), instance("b", 90), covers={"a": at(10), "b": at(50)})
    assert covers_of(found, FOLLOWED, at(90), at(90)) == {"a": at(10), "b": at(50)}


def test_a_table_of_which_nothing_is_out_is_covered_from_what_it_has_now():
    pending = TableRecord(TableState.PENDING, at(50), ("a",))
    found = table(instance("b", 70))

    record = still_covered(
        found, pending, covers_of(found, pending, at(40), at(40)), at(40), at(40)
    )

    assert (record.covers_from, record.instances) == (at(70), ("b",))
    assert record.state is TableState.PENDING


def test_nor_does_it_wait_for_a_watermark_of_a_primary_whose_last_commits_were_lost():
    pending = TableRecord(TableState.PENDING, at(50), ("a",))
    found = table(instance("a", 20))

    covers = covers_of(found, pending, at(40), at(40))

    assert covers == {"a": at(20)}
    assert still_covered(found, pending, covers, at(40), at(40)).covers_from == at(20)


@pytest.mark.parametrize(("left", "is_patched"), [("ab", True), ("a", False)])
def test_a_patch_goes_with_the_instance_whose_columns_it_is_for(left: str, is_patched: bool):
    patch = Patch(("city",), at(90))
    pending = TableRecord(TableState.PENDING, at(50), ("a", "b"), patch=patch)
    found = table(*(instance(name, 20) for name in left))

    covers = covers_of(found, pending, at(40), at(40))

    assert (still_covered(found, pending, covers, at(40), at(40)).patch == patch) is is_patched


@pytest.mark.parametrize(
    "left",
    [instance("b", 70), instance("a", 70), instance("a", 70, object_id=5)],
    ids=["another instance", "cleaned up", "enabled again"],
)
def test_a_table_of_which_a_part_of_a_transaction_is_out_has_lost_its_place(left: CaptureInstance):
    """Its other changes are in no instance, so readers must forget what they have of it."""
    pending = TableRecord(TableState.PENDING, at(50), ("a",))
    found = table(left, object_ids={"a": instance("a", 50).object_id})

    with pytest.raises(PositionExpired):
        still_covered(found, pending, covers_of(found, pending, at(49), at(50)), at(49), at(50))


def test_it_begins_with_what_its_instances_hold_and_forgets_what_was():
    stopped = TableRecord(TableState.STOPPED, at(10), ("a",), resume_key='["1"]', snapshot_rows=5)
    record = fresh_record(stopped, {"b": at(50), "c": at(60)})
    assert record == TableRecord(TableState.STOPPED, at(50), ("b", "c"))


def test_rows_up_to_where_a_newer_instance_begins_are_read_from_the_older_one():
    versions = {name: (TableSchema(TABLE, name, at(1), ()),) for name in "ab"}
    found = table(
        instance("a", 10),
        instance("b", 50),
        versions=versions,
        covers={"a": at(10), "b": at(50)},
    )
    chosen = [reading_of(found, at(number)) for number in (20, 50, 51)]
    assert [reading.instance.name for reading in chosen if reading] == ["a", "a", "b"]
    assert reading_of(table(instance("a", 10)), at(20)) is None


@pytest.mark.parametrize(
    ("orders_by_id", "published", "names"),
    [
        (True, at(59), ("a", "b")),  # both have command ids
        (False, at(60), ("a", "b")),  # the transaction is published whole
        (False, at(59), ("b", "a")),  # the one that is gone is the older: it was not read there
    ],
)
def test_the_order_amid_a_transaction_is_kept(
    *, orders_by_id: bool, published: Lsn, names: tuple[str, str]
):
    left = table(replace(instance("a", 10), ordered_by_command_id=orders_by_id))
    record = replace(FOLLOWED, instances=names)
    assert still_covered(left, record, {"a": at(10)}, published, at(60)).instances == ("a",)


def test_an_instance_without_command_ids_does_not_go_on_amid_a_transaction_of_another():
    left = table(replace(instance("a", 10), ordered_by_command_id=False))
    with pytest.raises(PositionExpired, match="b was disabled") as caught:
        still_covered(left, FOLLOWED, {"a": at(10)}, at(59), at(60))
    assert caught.value.disabled == ("b",)


def test_an_instance_that_began_after_the_transaction_was_not_read_there():
    left = table(replace(instance("a", 10), ordered_by_command_id=False))
    covers, names = {"a": at(10)}, FOLLOWED.instances
    for begins, is_later in ((61, True), (60, False)):
        registered = [
            TableSchema(TABLE, name, at(of), ()) for name, of in (("a", 10), ("b", begins))
        ]
        if is_later:
            found = still_covered(left, FOLLOWED, covers, at(59), at(60), registered)
            assert (names, found.instances) == (("a", "b"), ("a",))
        else:
            with pytest.raises(PositionExpired, match="b was disabled"):
                still_covered(left, FOLLOWED, covers, at(59), at(60), registered)


def test_query_functions_have_one_order_for_all_instances():
    older = replace(instance("a", 10), ordered_by_command_id=False, by_function=True)
    left = table(older)
    assert still_covered(left, FOLLOWED, {"a": at(10)}, at(59), at(60)).instances == ("a",)
