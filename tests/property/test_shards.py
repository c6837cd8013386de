"""Each topic has one shard, the same for everyone, and few of them move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_schemas.records.shards import (
    SHARDS_MAX,
    ShardMap,
    group_id,
    map_transactional_id,
    transactional_id,
)
from tailrace_schemas.topics.topic_names import TableName, TopicNames

TOPICS = st.lists(st.text(min_size=1, max_size=40), unique=True, max_size=60)
COUNTS = st.integers(1, 12)


@st.composite
def maps(draw: st.DrawFn) -> ShardMap:
    shards = draw(COUNTS)
    pinned = draw(st.dictionaries(st.text(min_size=1), st.integers(0, shards - 1), max_size=5))
    return ShardMap(draw(st.integers(1, 10**6)), shards, pinned)


@given(maps(), TOPICS)
def test_every_topic_has_one_shard_and_any_process_finds_the_same(
    found: ShardMap, topics: list[str]
):
    again = ShardMap.from_bytes(found.to_bytes())
    assert again == found
    for topic in (*topics, *found.pinned):
        assert 0 <= found.shard_of(topic) < found.shards
        assert again.shard_of(topic) == found.shard_of(topic)
    assert all(found.shard_of(topic) == shard for topic, shard in found.pinned.items())


@given(COUNTS, st.integers(0, 5), TOPICS)
def test_with_more_shards_topics_move_to_the_new_ones_only(few: int, more: int, topics: list[str]):
    before = ShardMap(1, few)
    after = before.resharded(few + more)
    assert after.number == 2
    for topic in topics:
        old, new = before.shard_of(topic), after.shard_of(topic)
        assert new == old or new >= few


@given(COUNTS, st.integers(0, 5), TOPICS)
def test_with_fewer_only_those_of_the_gone_move(few: int, more: int, topics: list[str]):
    before = ShardMap(1, few + more)
    after = before.resharded(few)
    for topic in topics:
        old = before.shard_of(topic)
        assert after.shard_of(topic) == old or old >= few


@given(maps(), st.integers(1, 12))
def test_pins_stay_where_they_can(found: ShardMap, shards: int):
    after = found.resharded(shards)
    assert after.pinned == {t: s for t, s in found.pinned.items() if s < shards}
    assert found.resharded(shards, {}).pinned == {}


def test_a_thousand_tables_are_spread():
    names = TopicNames("p")
    topics = [names.data(TableName("shop", "dbo", f"orders_{n}")) for n in range(1000)]
    for shards in (2, 3, 8):
        sizes = Counter(map(ShardMap(1, shards).shard_of, topics))
        assert len(sizes) == shards
        assert min(sizes.values()) > 0.75 * 1000 / shards
        assert max(sizes.values()) < 1.25 * 1000 / shards


def test_a_topic_keeps_its_shard_from_release_to_release():
    found = [ShardMap(1, 5).shard_of(f"p.shop.dbo.t{n}") for n in range(12)]
    assert found == [1, 2, 2, 2, 3, 0, 4, 3, 3, 4, 2, 4]


def test_one_shard_is_called_as_it_is_without_shards():
    assert transactional_id("air", "db", 1, 0) == "tailrace-air-db"
    assert transactional_id("p", "shop", 3, 2) == "tailrace-p-shop-shard-2"
    assert ShardMap().shard_of("anything") == 0
    assert ShardMap(1, 1, {"anything": 0}).is_divided_as(ShardMap())


NAMES = st.text(alphabet="a-%.2D", min_size=1, max_size=6)
SUFFIXES = st.sampled_from(["", "-shard-1", "-map"])


@given(st.tuples(NAMES, NAMES, SUFFIXES), st.tuples(NAMES, NAMES, SUFFIXES))
def test_two_pairs_of_prefix_and_database_share_no_transactional_id_or_group(
    one: tuple[str, str, str], two: tuple[str, str, str]
):
    def names(prefix: str, database: str, suffix: str) -> set[str]:
        database += suffix  # what looks like the end of another's name
        ids = {transactional_id(prefix, database, n, s) for n in (1, 3) for s in range(n)}
        return {*ids, map_transactional_id(prefix, database), group_id(prefix, database)}

    if (one[0], one[1] + one[2]) != (two[0], two[1] + two[2]):
        assert names(*one).isdisjoint(names(*two))


@pytest.mark.parametrize(
    ("number", "shards", "pinned"),
    [
        (0, 2, {}),
        (-1, 1, {}),
        (1, 0, {}),
        (1, SHARDS_MAX + 1, {}),
        (1, 2, {"t": 2}),
        (1, 2, {"t": -1}),
    ],
)
def test_numbers_out_of_their_bounds_are_refused(number: int, shards: int, pinned: dict[str, int]):
    with pytest.raises(ValueError, match="shard"):
        ShardMap(number, shards, pinned)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"form": 2, "map": 1, "shards": 2, "pinned": {}}',
        b'{"form": 1, "map": 1, "shards": "2", "pinned": {}}',
        b'{"form": 1, "map": true, "shards": 2, "pinned": {}}',
        b'{"form": 1, "map": 1, "shards": 2, "pinned": []}',
        b'{"form": 1, "map": 1, "shards": 2, "pinned": {"t": 2}}',
    ],
)
def test_what_is_no_map_is_refused(value: bytes):
    with pytest.raises(ValueError, match=r"map|shard"):
        ShardMap.from_bytes(value)


def test_fields_of_later_releases_are_passed_over():
    value = b'{"form": 1, "map": 3, "shards": 2, "pinned": {"t": 1}, "why": "because"}'
    assert ShardMap.from_bytes(value) == ShardMap(3, 2, {"t": 1})
