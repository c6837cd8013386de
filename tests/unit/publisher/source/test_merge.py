"""The merge keeps every event, in order, and its frontiers hold what they say."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.source.pages.merge import Block, merge
from tailrace_schemas.position.change_position import pack_position


def lsn(number: int) -> bytes:
    return number.to_bytes(10, "big")


@st.composite
def change_tables(draw: st.DrawFn) -> list[list[bytes]]:
    """Positions of some instances: several transactions that cross tables, seqvals out of order."""
    instances = draw(st.integers(1, 4))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(1, 6),  # commit
                st.integers(0, 3),  # command id
                st.integers(0, 1000),  # seqval
                st.sampled_from([1, 2, 4]),
                st.integers(0, instances - 1),
            ),
            max_size=60,
            unique_by=lambda row: row[:4],
        )
    )
    tables: list[list[bytes]] = [[] for _ in range(instances)]
    for commit, command, seqval, operation, instance in rows:
        tables[instance].append(pack_position(lsn(commit), command, lsn(seqval), operation))
    return [sorted(table) for table in tables]


def pages(number: int, table: list[bytes], size: int) -> Iterator[EncodedRows]:
    for start in range(0, len(table), size):
        part = table[start : start + size]
        yield EncodedRows(f"topic{number}", number, part, [None] * len(part), list(part), [])
        yield EncodedRows(f"topic{number}", number)  # a page with a before image only


def merged(tables: list[list[bytes]], size: int) -> list[Block]:
    return list(merge([pages(number, table, size) for number, table in enumerate(tables)]))


@given(change_tables(), st.integers(1, 7))
def test_merge_is_sort(tables: list[list[bytes]], size: int):
    blocks = merged(tables, size)

    in_order = [
        position
        for block in blocks
        for position in sorted(p for part in block.parts for p in part.positions)
    ]
    assert in_order == sorted(position for table in tables for position in table)


@given(change_tables(), st.integers(1, 7))
def test_a_table_stays_in_its_own_order(tables: list[list[bytes]], size: int):
    blocks = merged(tables, size)

    for number, table in enumerate(tables):
        parts = [part for block in blocks for part in block.parts if part.schema_id == number]
        assert [position for part in parts for position in part.positions] == table
        assert [value for part in parts for value in part.values] == table


@given(change_tables(), st.integers(1, 7))
def test_everything_up_to_a_frontier_is_in_its_block_or_before(
    tables: list[list[bytes]], size: int
):
    everything = sorted(position for table in tables for position in table)
    out: list[bytes] = []
    for block in merged(tables, size):
        out += [position for part in block.parts for position in part.positions]
        assert sorted(out) == [position for position in everything if position <= block.frontier]
        rest = [position for position in everything if position > block.frontier]
        assert block.ends_transaction == all(p[:10] != block.frontier[:10] for p in rest)
        assert all(len(part) for part in block.parts)


@given(change_tables(), st.data())
def test_a_cut_loses_nothing(tables: list[list[bytes]], data: st.DataObject):
    for block in merged(tables, 5):
        positions = sorted(p for part in block.parts for p in part.positions)
        at = data.draw(st.sampled_from(positions))

        before, behind = block.up_to(at)

        assert sorted(p for part in before for p in part.positions) == [
            p for p in positions if p <= at
        ]
        assert sorted(p for part in behind for p in part.positions) == [
            p for p in positions if p > at
        ]
