"""The tables that progress records name because they are not part of the cut."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutOfCut:
    """The tables that a progress record names.

    Attributes:
        topics: data topics of tables that are not part of the cut.
        again: those of them that an earlier record named and that started again from scratch. Their
            earlier events are void.
    """

    topics: tuple[str, ...] = ()
    again: frozenset[str] = frozenset()
