"""The values of options that choose one of some ways."""

from __future__ import annotations

from enum import StrEnum


class DeleteMode(StrEnum):
    """How the lake treats a row that the source deleted."""

    HARD = "hard"
    SOFT = "soft"


class BadRecords(StrEnum):
    """How the sink treats a record that is no change of its table."""

    STOP_TABLE = "stop-table"
    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


class TableFormats(StrEnum):
    """Formats of the lake's tables."""

    DELTA = "delta"
    ICEBERG = "iceberg"


class Profile(StrEnum):
    """Goal of the layout: speed, or readers that know few features of Delta."""

    FAST = "fast"
    COMPATIBLE = "compatible"
