"""Query all parts every few seconds, in a thread of its own: requests are answered from memory.

While nobody looks at the page it queries once a minute, to spare the source.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaException

from tailrace.lag.freshness import Freshness
from tailrace.reading.lake import CommitRows, unreadable
from tailrace.reading.progress import DividedIntoShards
from tailrace.web.daemons import DaemonAddress
from tailrace.web.model import Model
from tailrace.web.parts import PartsReader
from tailrace.web.strip import LedgerReader

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_END_S: Final = 30.0
_UNWATCHED_PAUSE_S: Final = 60.0
_FRESH_S: Final = 10.0
"""Age up to which a model answers a request at once; or five pauses, where they are longer."""

_log = structlog.get_logger(__name__)


class Collector:
    """Keeps a model that is a few seconds old.

    Args:
        publishers: where those of the database answer; none where they are not asked.
        sink: where it answers; None where it is not asked.
        every_s: pause between two looks, seconds.
        watched_s: how long after a request the page counts as looked at, seconds.

    Attributes:
        is_resting: whether it waits for somebody to look.

    Raises:
        SettingsError: the configuration is not usable.
    """

    def __init__(
        self,
        settings: Settings,
        publishers: Sequence[DaemonAddress],
        sink: DaemonAddress | None,
        every_s: float,
        watched_s: float = 60.0,
    ) -> None:
        config = settings.publisher()
        self._config = config
        self._parts = PartsReader(settings, publishers, sink)
        self._every_s = every_s
        self._watched_s = watched_s
        kafka = config.kafka
        self._ledger = LedgerReader(
            kafka.bootstrap, config.topics, kafka.librdkafka_options(), kafka.start_timeout_s
        )
        self._lake = settings.sink() if settings.has_sink else None
        self._commits = None if self._lake is None else CommitRows.of(self._lake)
        self._stop = threading.Event()
        self._turn = threading.Condition()
        self._asked_at = time.monotonic()
        self._seen_at = -math.inf
        self._model: Model | None = None
        self.is_resting = False
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End; a look that has started is finished or abandoned."""
        self._stop.set()
        with self._turn:
            self._turn.notify_all()
        self._thread.join(_END_S)
        self._ledger.close()

    def model(self, wait_s: float = 0.0) -> Model | None:
        """What was seen last; None before the first look is over.

        Args:
            wait_s: how long to wait for a look, where there was none for some time.
        """
        fresh_s = max(_FRESH_S, 5 * self._every_s)
        with self._turn:
            self._asked_at = now = time.monotonic()
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._seen_at > now - fresh_s, wait_s)
            return self._model

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                seen = self.look()
            except Exception as error:  # noqa: BLE001 - told on the page, which would stand still
                _log.exception("look_failed")
                told = {"this page": f"{type(error).__name__}: {error}"}
                before = self._model or Model(Freshness(_now_ms(), None, {}, ()))
                seen = replace(before, problems={**before.problems, **told})
            with self._turn:
                self._model, self._seen_at = _since(seen, self._model), time.monotonic()
                self._turn.notify_all()
            self._rest()

    def _rest(self) -> None:
        """The pause between two looks; long, and ended by a request, where nobody looks on."""
        self._stop.wait(self._every_s)
        with self._turn:
            seen_at = self._seen_at
            unasked_s = time.monotonic() - self._asked_at
            if unasked_s > self._watched_s:
                self.is_resting = True
                self._turn.wait_for(
                    lambda: self._stop.is_set() or self._asked_at > seen_at, _UNWATCHED_PAUSE_S
                )
                self.is_resting = False

    def look(self) -> Model:
        """Ask all parts now."""
        seen = self._parts.read()
        problems = dict(seen.problems)
        try:
            self._ledger.read()
        except KafkaException as error:
            problems.setdefault("topics", f"the progress topic: {error.args[0].str()}")
        except DividedIntoShards as error:
            problems.setdefault("topics", str(error))
        ledger = self._ledger.ledger
        counts = {}
        for topic, count in ledger.rows_by_topic().items():
            name = self._config.topics.table_of(topic)
            if name is not None:
                counts[f"{name.schema}.{name.table}".casefold()] = count
        return replace(
            seen,
            rows=tuple(replace(r, rows=counts.get(r.table.casefold(), 0)) for r in seen.rows),
            strip=tuple(ledger.strip(_now_ms(), self._cuts(problems))),
            problems=problems,
        )

    def _cuts(self, problems: dict[str, str]) -> Iterable[tuple[int, int | None]]:
        if self._lake is None or self._commits is None or "lake" in problems:
            return []
        from deltalake.exceptions import DeltaError

        try:
            return [(row.committed_ms, row.closed_commit_ms) for row in self._commits.read()]
        except (DeltaError, OSError) as error:
            path = self._lake.commits_path
            problems["lake"] = unreadable(self._lake, "commit table", path, error)
            return []


def _since(seen: Model, before: Model | None) -> Model:
    """The model with the time since when its verdict is what it is; None at the first look."""
    if before is None:
        return seen
    is_same = seen.verdict.state is before.verdict.state
    return replace(seen, since_ms=before.since_ms if is_same else seen.freshness.at_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
