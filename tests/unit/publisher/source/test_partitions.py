"""What two looks at a table's partitions say of its rows."""

from tailrace_publisher.source.catalog.partitions import Comparison, Partitions


def compare(before: dict[int, int], after: dict[int, int]) -> Comparison:
    return Partitions(after).compare(Partitions(before))


def recorded(rows: dict[int, int]) -> Partitions:
    """As it comes back from the checkpoint: without the counts."""
    return Partitions.parse(str(Partitions(rows)))


def test_changes_of_rows_are_no_switch():
    assert compare({1: 5, 2: 0}, {1: 0, 2: 7}) is Comparison.SAME


def test_a_partition_that_is_switched_out_leaves_an_empty_one():
    assert compare({1: 5, 2: 9}, {77: 0, 2: 9}) is Comparison.SWITCHED


def test_a_partition_that_is_switched_in_takes_the_place_of_an_empty_one():
    assert compare({1: 5, 2: 0}, {1: 5, 77: 9}) is Comparison.SWITCHED


def test_a_whole_table_is_switched_as_a_partition_is():
    assert compare({1: 5}, {77: 0}) is Comparison.SWITCHED


def test_a_sliding_window_in_one_step_is_a_switch():
    """SWITCH out of the oldest, MERGE of the empty one, SPLIT for the newest."""
    assert compare({1: 5, 2: 9, 3: 0}, {2: 9, 3: 0, 88: 0}) is Comparison.SWITCHED


def test_an_index_rebuild_gives_new_ids_to_the_same_rows():
    assert compare({1: 5, 2: 0}, {11: 5, 12: 0}) is Comparison.MOVED


def test_an_empty_partition_may_have_been_filled_and_switched_out_meanwhile():
    assert compare({1: 0, 2: 9}, {11: 0, 2: 9}) is Comparison.MOVED


def test_partitioning_a_table_moves_its_rows():
    assert compare({1: 9}, {11: 4, 12: 5, 13: 0}) is Comparison.MOVED


def test_split_and_merge_of_empty_partitions_move_nothing():
    assert compare({1: 5, 2: 0}, {1: 5, 2: 0, 3: 0}) is Comparison.SAME
    assert compare({1: 5, 2: 0, 3: 0}, {1: 5, 3: 0}) is Comparison.MOVED


def test_split_and_merge_keep_the_number_of_rows():
    assert compare({1: 9}, {1: 4, 2: 5}) is Comparison.SAME
    assert compare({1: 4, 2: 5}, {1: 9}) is Comparison.MOVED


def test_a_split_and_a_switch_in_one_step_do_not():
    assert compare({1: 9}, {1: 9, 77: 5}) is Comparison.SWITCHED
    assert compare({1: 4, 2: 5}, {1: 4}) is Comparison.SWITCHED


def test_without_counts_a_split_of_rows_counts_as_a_switch():
    assert Partitions({1: 4, 2: 5}).compare(recorded({1: 9})) is Comparison.SWITCHED


def test_the_checkpoint_keeps_ids_and_emptiness():
    before = recorded({0xAB: 5, 0x1: 0})

    assert str(before) == "1- ab"
    assert Partitions({0xAB: 6, 0x1: 0}).compare(before) is Comparison.SAME
    assert Partitions({0xAB: 6, 0x2: 3}).compare(before) is Comparison.SWITCHED
    assert Partitions({0x2: 0, 0x1: 0}).compare(before) is Comparison.SWITCHED
    assert Partitions({0xAB: 6, 0x2: 0}).compare(before) is Comparison.MOVED
    assert Partitions({0xAB: 6, 0x2: 3}).gone(before) == [0x1]


def test_partitions_that_may_not_be_switched_at_either_look_are_not_compared():
    fixed = Partitions.parse(str(Partitions({0xAB: 5}, is_fixed=True)))
    split = Partitions({1: 2, 2: 3}, is_fixed=True)

    assert str(fixed) == "=ab"
    assert split.compare(fixed) is Comparison.SAME
    assert Partitions({77: 0}).compare(fixed) is Comparison.SWITCHED
    assert Partitions({77: 0}, is_fixed=True).compare(Partitions({1: 5})) is Comparison.SWITCHED
    assert Partitions({1: 5}).compare(Partitions.parse("")) is Comparison.SAME
