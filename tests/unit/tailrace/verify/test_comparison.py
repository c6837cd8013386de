"""The rules of a comparison against a model of a source and a lake that move, and their mutants.

The model has every value of every row at each LSN. Commits come between any two rows that are
read. The lake lags, and has lost some commits: these rows it has wrong, until they change again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest

from tailrace.reading.change_rows import NotThere
from tailrace.verify import compare, lake_cuts, ranges
from tailrace.verify.canonical_text import CanonicalColumn
from tailrace.verify.compare import Comparison, Limits
from tailrace.verify.lake_rows import Difference, Differences
from tailrace.verify.ranges import NOTHING, Checksum, KeyRange
from tailrace.verify.row_differences import Kind, row_difference
from tailrace.verify.source_rows import Reading
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import Key, TableShape
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.reading.cut_tables import CutTables

KEYS = range(12)
RANGE_ROWS = 3
SEEDS = range(120)
HAS = KeyRange.has
Part = tuple[int | None, int | None]
"""The key before the first row, and how many rows are read."""
ID = CanonicalColumn("id", "[id]", "`id`")
NAME = CanonicalColumn("name", "[name]", "`name`")
SHAPE = TableShape(TableName("shop", "dbo", "t"), (), (ID, NAME), (ID,), ("[id] = ?",), (), False)


def in_range(keys: KeyRange) -> list[int]:
    return [key for key in KEYS if HAS(keys, key)]


def lsn(number: int) -> Lsn:
    return Lsn.from_bytes(number.to_bytes(10, "big"))


def number(of: Lsn | str) -> int:
    return int.from_bytes((Lsn.parse(of) if isinstance(of, str) else of).to_bytes(), "big")


def texts(value: int | None, key: int) -> tuple[str, str] | None:
    return None if value is None else (str(key), str(value))


def checksum(rows: Iterable[tuple[int, int | None]]) -> Checksum:
    hashes = [int.from_bytes(sha256(f"{row}".encode()).digest()[:6], "big") for row in rows]
    return (len(hashes), sum(hashes), 0, 0, 0)


@dataclass
class World:
    """All commits, which of them the lake has lost, and how far it is.

    Attributes:
        history: of each key (LSN, value); None: the row was deleted.
        lost: the LSNs that the lake does not have.
        cut: the LSN of the lake's newest cut.
        is_still: whether the lake does not move any more.
        writes: whether the source still changes.
        is_busy: whether it changes between two reads, too.
    """

    chance: random.Random
    history: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    now: int = 0
    cut: int = 0
    is_still: bool = False
    writes: bool = True
    is_busy: bool = False

    def commit(self, keys: Sequence[int] = KEYS) -> None:
        key = self.chance.choice(keys)
        before = self.source(key, self.now)
        self.now += 1
        value = self.now if before is None or self.chance.random() < 0.7 else None
        self.history.setdefault(key, []).append((self.now, value))
        if self.chance.random() < 0.15:
            self.lost.add(self.now)

    def pause(self) -> None:
        """A moment between two rows that are read."""
        while self.writes and self.chance.random() < 0.25:
            self.commit()

    def source(self, key: int, at: int) -> int | None:
        return next((v for n, v in reversed(self.history.get(key, [])) if n <= at), None)

    def lake(self, key: int, at: int) -> int | None:
        """A lost commit leaves the value before it; a later one brings its own."""
        found = [v for n, v in self.history.get(key, []) if n <= at and n not in self.lost]
        return found[-1] if found else None

    def wrong(self, at: int) -> set[int]:
        return {key for key in KEYS if self.source(key, at) != self.lake(key, at)}

    def changed(self, after: int, up_to: int) -> set[int]:
        return {k for k, done in self.history.items() for n, _ in done if after < n <= up_to}

    def newest(self, *_: Any) -> str:
        if self.is_busy:
            self.pause()
        if not self.is_still:
            self.cut = min(self.now, self.cut + self.chance.randrange(4))
        return str(lsn(self.cut))


class Source:
    """``SourceRows``, of the model."""

    control = None

    def __init__(self, world: World) -> None:
        self.world = world

    def checksums(self, _: TableShape, after: int | None, rows: int | None) -> Reading:
        started, last = self.world.now, after
        found: list[tuple[KeyRange, Checksum]] = []
        for_range: list[tuple[int, int | None]] = []
        for read, (key, value) in enumerate(self._walk(KeyRange(after, None)), 1):
            for_range.append((key, value))
            if len(for_range) == RANGE_ROWS:
                found.append((KeyRange(last, key), checksum(for_range)))
                last, for_range = key, []
                if rows is not None and read >= rows:
                    break
        else:
            found.append((KeyRange(last, None), checksum(for_range)))
        parts, sums = zip(*found, strict=True)
        return self._reading(started, ranges=parts, checksums=sums)

    def rows(self, _: TableShape, parts: Sequence[KeyRange] = (ranges.EVERYTHING,)) -> Reading:
        started = self.world.now
        rows: Any = dict(row for keys in parts for row in self._walk(keys))
        return self._reading(started, rows=rows, ranges=parts)

    def rows_of(self, _: TableShape, keys: Sequence[Key]) -> Reading:
        started = self.world.now
        found: dict[Key, Sequence[str | None]] = {}
        for (text,) in keys:
            row = texts(self.world.source(int(str(text)), self.world.now), int(str(text)))
            if row is not None:
                found[(text,)] = row
            self.world.pause()
        return self._reading(started, texts=found)

    def reached(self, fence: Any) -> Lsn:
        return lsn(fence)

    def _walk(self, keys: KeyRange) -> Iterable[tuple[int, int]]:
        for key in in_range(keys):
            self.world.pause()
            value = self.world.source(key, self.world.now)
            if value is not None:
                yield key, value

    def _reading(self, started: int, **found: Any) -> Reading:
        self.world.pause()
        fence: Any = self.world.now
        return Reading(lsn(started), fence, 0, **found)


class Cuts:
    """The lake, of the model; a cut is its own table."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed_lsn = ""
        self.at = CutTables(1, SinkState(), "", None, {}, {}, {})

    def as_of(self) -> Cuts:
        found = Cuts(self.world)
        found.closed_lsn = self.world.newest()
        return found

    def read(self, _: TableName) -> Cuts:
        return self

    def of_tables(self) -> Cuts:
        return self

    def require_own_rows(self, _: TableName) -> None:
        """Nobody else changes them."""

    def rows(self, keys: KeyRange = ranges.EVERYTHING) -> dict[int, int]:
        at = number(self.closed_lsn)
        found = {key: self.world.lake(key, at) for key in in_range(keys)}
        return {key: value for key, value in found.items() if value is not None}

    def checksums(self, parts: Sequence[KeyRange]) -> dict[int, Checksum]:
        sums = {n: checksum(self.rows(keys).items()) for n, keys in enumerate(parts)}
        return {n: found for n, found in sums.items() if found != NOTHING}


def compared(
    patch: pytest.MonkeyPatch, world: World, part: Part, *, has_ranges: bool
) -> TableResult:
    """Run the product's comparison over the model."""

    def differences(
        _: Any, __: TableShape, source: Mapping[int, int], table: Cuts, parts: Sequence[KeyRange]
    ) -> Differences:
        lake = {key: value for keys in parts for key, value in table.rows(keys).items()}
        keys = [k for k in sorted({*source, *lake}) if source.get(k) != lake.get(k)]
        found = [Difference((str(k),), int(k in source), int(k in lake)) for k in keys]
        return Differences(found, len(found))

    def texts_of(_: Any, __: TableShape, table: Cuts, keys: Sequence[Key]) -> dict[Key, Any]:
        rows = table.rows()
        return {
            key: [texts(rows[int(str(key[0]))], int(str(key[0])))]
            for key in keys
            if int(str(key[0])) in rows
        }

    def changed_keys(_: Any, __: TableShape, after: Lsn, up_to: Lsn) -> set[Key]:
        return {(str(key),) for key in world.changed(number(after), number(up_to))}

    def wait_for(reached: Callable[[], Lsn | None], limit_s: float) -> Lsn | None:
        for _ in range(200 if limit_s else 1):
            found = reached()
            if found is not None or world.is_still:
                return found
        return None

    patch.setattr(lake_cuts, "read", lambda *_: Cuts(world))
    patch.setattr(lake_cuts, "reading_options", lambda _: {})
    patch.setattr(lake_cuts, "newest_logged", world.newest)
    patch.setattr(compare, "has_ranges", lambda _: has_ranges)
    patch.setattr(compare, "checksums", lambda _, cut, parts: cut.checksums(parts))
    patch.setattr(compare, "differences", differences)
    patch.setattr(compare, "row_count", lambda *_: 0)
    patch.setattr(compare, "texts_of", texts_of)
    patch.setattr(compare, "changed_keys", changed_keys)
    patch.setattr(compare, "wait_for", wait_for)
    patch.setattr(lake_cuts, "wait_for", wait_for)
    lake: Any = type("Lake", (), {"lake": "", "log_path": ""})
    source: Any = Source(world)
    session: Any = None
    return Comparison(source, session, lake, Limits(examples=len(KEYS))).compare(SHAPE, *part)


def faults(patch: pytest.MonkeyPatch, seed: int) -> list[str]:
    """Run one comparison; return what it reports wrongly, or leaves out."""
    chance = random.Random(seed)
    world = World(chance)
    for _ in range(chance.randrange(40)):
        world.commit()
    world.cut = world.now - min(world.now, chance.randrange(4))
    # The writer stops after the first reads; it never stops; the sink stands still.
    mode, has_ranges = seed % 3, seed % 2 == 0
    part = (None, None) if chance.random() < 0.5 else (chance.randrange(8), 2 * RANGE_ROWS)
    first_cut, world.is_still, world.is_busy = world.cut, mode == 2, mode == 1
    if mode != 1:
        rows_of = Source.rows_of

        def quiet_rows_of(source: Source, shape: TableShape, keys: Sequence[Key]) -> Reading:
            source.world.writes = False
            return rows_of(source, shape, keys)

        patch.setattr(Source, "rows_of", quiet_rows_of)
    result = compared(patch, world, part, has_ranges=has_ranges)
    keys = KeyRange(part[0], result.last_key) if has_ranges else ranges.EVERYTHING
    reported = {int(str(found.key["id"])) for found in result.examples}
    resting = set(KEYS) - world.changed(first_cut, world.now)
    match mode:
        case 0:
            right = world.wrong(world.now)
        case 1:
            ever = set().union(*(world.wrong(at) for at in range(first_cut, world.now + 1)))
            right = (reported & ever) | (resting & world.wrong(first_cut))
        case _:
            right = resting & world.wrong(first_cut)
    right = {key for key in right if HAS(keys, key)}
    found = []
    if reported != right:
        found.append(f"reported {sorted(reported)}, not {sorted(right)}")
    if result.is_proven and any(HAS(keys, key) for key in resting & world.wrong(first_cut)):
        found.append("proven, although a row is wrong")
    if mode == 0 and result.is_proven is bool(right):
        found.append("proven is not whether no row differs")
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_reported_is_what_is_wrong(monkeypatch: pytest.MonkeyPatch, seed: int):
    assert faults(monkeypatch, seed) == []


def test_a_range_that_differs_is_not_equal_if_no_row_of_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
):
    class Blind(World):
        """A lake with a row that only its checksum has."""

        def newest(self, *_: Any) -> str:
            return str(lsn(self.cut))

    world = Blind(random.Random(1), writes=False)
    world.history = {key: [(1, 1)] for key in KEYS}
    world.now = world.cut = 1
    of = Cuts.checksums

    def with_one_more(cut: Cuts, parts: Sequence[KeyRange]) -> dict[int, Checksum]:
        found = of(cut, parts)
        rows, *sums = found[1]
        return found | {1: (rows + 1, *sums)}

    assert compared(monkeypatch, world, (None, None), has_ranges=True).is_proven
    monkeypatch.setattr(Cuts, "checksums", with_one_more)
    result = compared(monkeypatch, world, (None, None), has_ranges=True)
    assert not result.is_proven
    assert "differ by their checksums" in str(result.problem)

    world.history[KEYS[-1]].append((1, None))  # a row that is found does not explain other ranges
    world.lost.clear()
    monkeypatch.setattr(World, "lake", lambda *_: 1)
    result = compared(monkeypatch, world, (None, None), has_ranges=True)
    assert result.differing[Kind.SURPLUS.value] == 1
    assert "rows of 1 key ranges differ by their checksums" in str(result.problem)


class StandingStill(Source):
    """A source whose capture process does not read its log."""

    def reached(self, _: Any) -> None:  # type: ignore[override]
        return None


def comparison_of(patch: pytest.MonkeyPatch, cut: str | None) -> Comparison:
    patch.setattr(lake_cuts, "read", lambda *_: Cuts(World(random.Random(1))))
    patch.setattr(lake_cuts, "reading_options", lambda _: {})
    patch.setattr(lake_cuts, "newest_logged", lambda *_: cut)
    patch.setattr(compare, "has_ranges", lambda _: False)
    lake: Any = type("Lake", (), {"lake": "/lake", "log_path": ""})
    source: Any = StandingStill(World(random.Random(1)))
    session: Any = None
    return Comparison(source, session, lake, Limits(wait_s=30))


def test_a_capture_process_that_stands_still_is_waited_for_once(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    monkeypatch.setattr(compare, "wait_for", lambda _, limit_s: waits.append(limit_s))
    comparison = comparison_of(monkeypatch, str(lsn(1)))

    problems = [comparison.compare(SHAPE).problem for _ in range(13)]

    assert all("capture process has not read the log" in str(problem) for problem in problems)
    assert sum(waits) == 30


def test_a_lake_without_a_cut_says_so_before_anything_is_read(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NotThere, match="the lake /lake has no cut yet"):
        comparison_of(monkeypatch, None).check_cut()
    comparison_of(monkeypatch, str(lsn(1))).check_cut()


Patch = Callable[[pytest.MonkeyPatch], None]
"""Puts a wrong rule in the place of a right one."""


def window_of(wrong: Callable[[Lsn, Lsn, Lsn], tuple[Lsn, Lsn]]) -> Patch:
    return lambda patch: patch.setattr(compare, "window", wrong)


def has_of(wrong: Callable[[KeyRange, int], bool]) -> Patch:
    return lambda patch: patch.setattr(KeyRange, "has", wrong)


def unseen(kind: Kind) -> Patch:
    def wrong(*row: Any) -> Any:
        found = row_difference(*row)
        return None if found is not None and found.kind is kind else found

    return lambda patch: patch.setattr(compare, "row_difference", wrong)


def only_counts(
    parts: Sequence[KeyRange], source: Sequence[Checksum], lake: Mapping[int, Checksum]
) -> list[KeyRange]:
    counts = {n: (found[0], 0, 0, 0, 0) for n, found in lake.items()}
    return ranges.differing(parts, [(found[0], 0, 0, 0, 0) for found in source], counts)


def only_ranges_of_both(
    parts: Sequence[KeyRange], source: Sequence[Checksum], lake: Mapping[int, Checksum]
) -> list[KeyRange]:
    return ranges.differing(parts, source, dict(enumerate(source)) | dict(lake))


def equal_rows_are_settled(patch: pytest.MonkeyPatch) -> None:
    """Rows that changed meanwhile, and were equal, are not compared again."""
    of_ranges, of_rows = Comparison._differing_ranges, Comparison._differences
    patch.setattr(Comparison, "_differing_ranges", lambda *a: (*of_ranges(*a)[:2], set()))
    patch.setattr(Comparison, "_differences", lambda *a: (of_rows(*a)[0], set()))


MUTANTS: dict[str, Patch] = {
    "changes after the start are those after the cut": window_of(lambda s, r, c: (c, max(r, c))),
    "changes before the start do not count": window_of(lambda s, r, c: (s, max(r, c))),
    "the later of start and cut": window_of(lambda s, r, c: (max(s, c), max(r, c))),
    "changes after the cut do not count": window_of(lambda s, r, c: (min(s, c), c)),
    "changes after the read do not count": window_of(lambda s, r, c: (min(s, c), r)),
    "no change counts": window_of(lambda s, r, c: (r, r)),
    "an equal row is settled": equal_rows_are_settled,
    "a part has the key before it": has_of(lambda k, key: HAS(k, key) or key == k.after),
    "a part has not its last key": has_of(lambda k, key: HAS(k, key) and key != k.last),
    "a part has all keys": has_of(lambda _, __: True),
    "ranges have only counts": lambda patch: patch.setattr(compare, "differing", only_counts),
    "rows only in the source": lambda p: p.setattr(compare, "differing", only_ranges_of_both),
    "missing rows are not seen": unseen(Kind.MISSING),
    "surplus rows are not seen": unseen(Kind.SURPLUS),
    "values are not seen": unseen(Kind.VALUE),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch, mutant: str):
    def is_found(seed: int) -> bool:
        with monkeypatch.context() as patch:
            MUTANTS[mutant](patch)
            return bool(faults(patch, seed))

    assert any(is_found(seed) for seed in range(600))
