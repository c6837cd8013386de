"""What ``tailrace verify --continuous`` has found of each key range, and which comes next. Pure.

The ranges of a table follow each other and have all keys. A comparison begins where a range does,
and reads as many rows as it may, so it ends anywhere. What it read becomes one range. Of the ranges
that it met, the part after its end stays as it was. The range that was compared longest ago is
compared next, wherever a process was stopped. So there is no pass over a table that has to end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tailrace.verify.ranges import EVERYTHING, KeyRange

EVERY_MS: Final = 24 * 3_600_000
"""A range is compared again after this time, if there is nothing older."""
EVERY_DIFFERING_MS: Final = 3_600_000
"""The same of a range in which rows differed: they may have been repaired."""


class VerifiedUnreadable(Exception):
    """The file with what was verified cannot be read; says how to begin again."""


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """A key range, as it was last compared.

    Attributes:
        tried_ms: begin of the last comparison, milliseconds UTC; 0: there was none.
        differing: rows that differed in it.
        verified_ms: begin of the last comparison that found all rows equal; None: there was none.
        lsn: each row was found equal at it or later; None likewise.
    """

    keys: KeyRange = EVERYTHING
    tried_ms: int = 0
    differing: int = 0
    verified_ms: int | None = None
    lsn: str | None = None

    @property
    def due_ms(self) -> int:
        """When it is compared again; 0 if it never was."""
        pause_ms = EVERY_DIFFERING_MS if self.differing else EVERY_MS
        return self.tried_ms + pause_ms if self.tried_ms else 0


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """The ranges of a table.

    Attributes:
        object_id: of the source table; another one means another table.
        since_ms: when it was first seen.
        ranges: in the order of keys.
    """

    object_id: int
    since_ms: int
    ranges: tuple[VerifiedRange, ...] = (VerifiedRange(),)

    @property
    def oldest_ms(self) -> int:
        """Time since when every row was found equal; until then, when the table was first seen."""
        times = [part.verified_ms for part in self.ranges]
        return min(self.since_ms if at is None else at for at in times)

    @property
    def lsn(self) -> str | None:
        """Each row was found equal at this LSN or later; None until all were."""
        lsns = [part.lsn for part in self.ranges]
        return None if None in lsns else min(lsn for lsn in lsns if lsn is not None)

    @property
    def differing(self) -> int:
        """Rows that differed when their range was last compared."""
        return sum(part.differing for part in self.ranges)

    def compared(self, keys: KeyRange, at_ms: int, differing: int, lsn: str | None) -> Self:
        """Return the table after a comparison.

        Args:
            lsn: None if not all rows were found equal.
        """
        met = [part for part in self.ranges if _meet(part.keys, keys)]
        verified_ms: int | None = at_ms
        if lsn is None:  # What was found equal before stays so.
            oldest = min(met, key=lambda part: part.verified_ms or 0)
            verified_ms, lsn = oldest.verified_ms, oldest.lsn
        rest = [replace(p, keys=left) for p in self.ranges for left in _outside(p.keys, keys)]
        made = VerifiedRange(keys, at_ms, differing, verified_ms, lsn)
        return replace(self, ranges=tuple(sorted([made, *rest], key=lambda part: _low(part.keys))))


def verified_path(lake: str) -> str:
    """Return the path of the file with what was verified of a lake."""
    return f"{lake}/_tailrace/verified.json"


def next_range(
    tables: Mapping[str, VerifiedTable], at_ms: int, *, differing_first: bool
) -> tuple[str, VerifiedRange] | None:
    """Return what is compared next, with its table; None if nothing is due.

    Args:
        differing_first: whether ranges in which rows differed come before older ones.
    """
    due = [(name, part) for name, part in _all(tables) if part.due_ms <= at_ms]
    if not due:
        return None
    return min(due, key=lambda one: (differing_first and not one[1].differing, one[1].tried_ms))


def due_ms(tables: Mapping[str, VerifiedTable]) -> float:
    """Return when a range is due; infinite without tables."""
    return min((part.due_ms for _, part in _all(tables)), default=math.inf)


def with_tables(
    known: Mapping[str, VerifiedTable], there: Mapping[str, int], at_ms: int
) -> dict[str, VerifiedTable]:
    """Return what is known of the tables that are there; of new ones nothing is.

    Args:
        there: the object ids of source tables by name.
    """
    new = {name: VerifiedTable(object_id, at_ms) for name, object_id in there.items()}
    same = {n: known[n] for n, id_ in there.items() if n in known and known[n].object_id == id_}
    return new | same


def to_json(tables: Mapping[str, VerifiedTable]) -> str:
    """Return one JSON object, by name of the table."""
    return json.dumps(
        {
            name: {
                "object_id": table.object_id,
                "since_ms": table.since_ms,
                "ranges": [
                    [part.keys.last, part.tried_ms, part.differing, part.verified_ms, part.lsn]
                    for part in table.ranges
                ],
            }
            for name, table in tables.items()
        }
    )


def of_json(text: str, path: str) -> dict[str, VerifiedTable]:
    """Read what :func:`to_json` returned.

    Args:
        path: of the file, for the error.

    Raises:
        VerifiedUnreadable: it is something else.
    """
    try:
        return {str(name): _table(found) for name, found in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise VerifiedUnreadable(
            f"{path} does not have what tailrace verify --continuous writes ({error}). Fix: remove"
            " it; all tables are then verified from the beginning"
        ) from error


def _table(found: Mapping[str, Any]) -> VerifiedTable:
    parts, after = [], None
    for last, *of_range in found["ranges"]:
        parts.append(VerifiedRange(KeyRange(after, last), *of_range))
        after = last
    if not parts or after is not None:
        raise ValueError("the ranges of a table do not have all keys")
    return VerifiedTable(int(found["object_id"]), int(found["since_ms"]), tuple(parts))


def _all(tables: Mapping[str, VerifiedTable]) -> Iterable[tuple[str, VerifiedRange]]:
    return ((name, part) for name, table in tables.items() for part in table.ranges)


def _low(keys: KeyRange) -> float:
    return -math.inf if keys.after is None else keys.after


def _high(keys: KeyRange) -> float:
    return math.inf if keys.last is None else keys.last


def _meet(one: KeyRange, other: KeyRange) -> bool:
    return _low(one) < _high(other) and _low(other) < _high(one)


def _outside(keys: KeyRange, cut: KeyRange) -> Iterator[KeyRange]:
    """Yield what a range has before and after another one."""
    if not _meet(keys, cut):
        yield keys
        return
    if _low(keys) < _low(cut):
        yield KeyRange(keys.after, cut.after)
    if _high(cut) < _high(keys):
        yield KeyRange(cut.last, keys.last)
