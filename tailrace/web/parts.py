"""Asking all parts of a pipeline at one moment: source, topics, lake, and the daemons."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tailrace.lag.freshness import Freshness, FreshnessReader
from tailrace.reading.stopped_tables import PublisherNotes, publisher_notes
from tailrace.web.daemons import DaemonAddress, DaemonUnavailable, ask_status
from tailrace.web.model import Model, put_together
from tailrace_publisher.errors import PublisherError
from tailrace_service.registry.client import RegistryError
from tailrace_service.status import DaemonStatus

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_NOTES_AGE_MAX_S: Final = 30.0


class PartsReader:
    """Query all parts, again and again.

    Args:
        settings: the configuration; the sink is a part if it is configured.
        publishers: where those of the database answer; none if none is watched.
        sink: where it answers; None if it is not watched.

    Raises:
        SettingsError: the configuration is not usable.
    """

    def __init__(
        self, settings: Settings, publishers: Sequence[DaemonAddress], sink: DaemonAddress | None
    ) -> None:
        self._config = settings.publisher()
        self._has_sink = settings.has_sink
        self._freshness = FreshnessReader(settings)
        self._publishers, self._sink = publishers, sink
        self._notes: PublisherNotes | str = PublisherNotes()
        self._noted_at = -math.inf

    def read(self) -> Model:
        """Ask them now; the ledger is not read."""
        freshness = self._freshness.read()
        problems = dict(freshness.problems)
        asked = [_asked("publisher", address, problems) for address in self._publishers]
        told = [status for status in asked if status is not None]
        publisher = publishing(told)
        sink = None if self._sink is None else _asked("sink", self._sink, problems)
        notes = PublisherNotes()
        if publisher is None or not publisher.tables or len(told) < len(asked):
            notes = self._noted(freshness, problems)
        watched = {"publisher": bool(self._publishers), "sink": self._sink is not None}
        return Model(
            freshness,
            publisher,
            sink,
            put_together(freshness, publisher, sink, notes),
            problems=problems,
            has_lake=self._has_sink,
            watched=tuple(name for name, is_watched in watched.items() if is_watched),
            heartbeat_s=self._config.heartbeat_s,
            is_paused=notes.paused_since_ms is not None,
        )

    def _noted(self, freshness: Freshness, problems: dict[str, str]) -> PublisherNotes:
        """What the checkpoints have of a publisher that does not answer, or knows no table yet.

        They are read twice a minute: a publisher that is dead changes nothing in them.
        """
        if freshness.published_ms is None:
            return PublisherNotes()
        if time.monotonic() - self._noted_at > _NOTES_AGE_MAX_S:
            try:
                self._notes = publisher_notes(self._config)
            except (PublisherError, RegistryError) as error:
                self._notes = str(error)
            self._noted_at = time.monotonic()
        if isinstance(self._notes, str):
            problems["checkpoints"] = self._notes
            return PublisherNotes()
        return self._notes


def publishing(found: Sequence[DaemonStatus]) -> DaemonStatus | None:
    """The publisher that has the database, of those of a fleet; None if none answers."""
    return min(found, key=lambda s: (s.state == "elsewhere", not s.tables), default=None)


def _asked(name: str, address: DaemonAddress, problems: dict[str, str]) -> DaemonStatus | None:
    try:
        return ask_status(address)
    except DaemonUnavailable as error:
        problems[name] = "; ".join(filter(None, [problems.get(name), str(error)]))
        return None
