"""Which tables are not part of the cut, as progress records name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutOfCut:
    """The tables that a progress record names.

    Attributes:
        topics: data topics of tables that are not part of the cut.
        again: those of them that were named before and begin anew: what came of them is void.
    """

    topics: tuple[str, ...] = ()
    again: frozenset[str] = frozenset()
