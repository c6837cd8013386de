"""Faults that the simulation has found and nobody has mended yet: left out, by name, until then.

Each says what happens, and how the scenarios keep away from it. ``--with-known`` leaves nothing
out. An entry goes when its fault goes; its history then moves to ``histories/``.
"""

from __future__ import annotations

from enum import Enum


class Known(Enum):
    """A fault by its name; the value says what it is."""

    SNAPSHOT_BEGUN_TWICE = (
        "A table that is stopped, or whose place is lost, while progress records name it (its first"
        " snapshot runs) and then begins again is held by readers since the first naming: rows of"
        " the first attempt that were deleted in the gap stay. Kept away from: the judge begins"
        " anew where the publisher tells table_restarted, as a record would have to say."
    )
    DDL_BESIDE_SNAPSHOT = (
        "A column that is dropped or altered while a snapshot is pending may stop the table (seed"
        " 192: error 8115, a value that does not fit the version that is read). Kept away from: no"
        " such DDL while a table is not in the cut."
    )


class Avoided:
    """Which known faults a run keeps away from: all, unless it was asked for."""

    everything: bool = True


def avoids(fault: Known) -> bool:
    """Whether a run keeps away from a fault."""
    return Avoided.everything and isinstance(fault, Known)
