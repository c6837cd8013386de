"""What happens at the source if everything grows as in the last hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

SHOWN_S: Final = 86_400.0
BAD_S: Final = 21_600.0
"""Forecasts that are shown, and those that are an alert."""


class Forecast(NamedTuple):
    """A forecast that is near.

    Attributes:
        sentence: what happens, with a place for the time.
        runbook: a page under docs/runbooks, without ``.md``.
    """

    left_s: float
    sentence: str
    runbook: str


_FORECASTS: Final = {
    "retention_left_seconds": (
        "Retention overtakes the publisher in {} at this rate: cleanup then removes what is not"
        " published.",
        "RetentionOvertakes",
    ),
    "log_full_seconds": (
        "The source's transaction log is full in {} at this rate: every write then fails (9002).",
        "LogFillsUp",
    ),
    "disk_full_seconds": (
        "The disk of the source's data files is full in {} at this rate.",
        "DiskFillsUp",
    ),
}
"""By the figure in the publisher's status."""


def near_forecasts(figures: Mapping[str, float | None]) -> Iterator[Forecast]:
    """Return the forecasts that are shown.

    Args:
        figures: of the publisher, by name; None of what is unknown or does not grow.
    """
    for name, (sentence, runbook) in _FORECASTS.items():
        left_s = figures.get(name)
        if left_s is not None and left_s < SHOWN_S:
            yield Forecast(left_s, sentence, runbook)
