"""Asks all parts every few seconds, in a thread of its own: a request is answered from memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaException

from tailrace.freshness import Freshness, FreshnessReader
from tailrace.lake import CommitRows
from tailrace.web.daemons import DaemonAddress, DaemonUnavailable, ask_status
from tailrace.web.model import Model, put_together
from tailrace.web.strip import LedgerReader
from tailrace_schemas.daemon_status import DaemonStatus

if TYPE_CHECKING:
    from tailrace.settings import Settings

_END_S: Final = 30.0

_log = structlog.get_logger(__name__)


class Collector:
    """Keeps a model that is a few seconds old.

    Args:
        settings: the configuration.
        publisher: where it answers; None where it is not asked.
        sink: the same.
        every_s: pause between two looks, seconds.

    Raises:
        SettingsError: the configuration is not usable.
    """

    def __init__(
        self,
        settings: Settings,
        publisher: DaemonAddress | None,
        sink: DaemonAddress | None,
        every_s: float,
    ) -> None:
        config = settings.publisher()
        self._config = config
        self._reader = FreshnessReader(settings)
        self._publisher, self._sink = publisher, sink
        self._every_s = every_s
        kafka = config.kafka
        self._ledger = LedgerReader(
            kafka.bootstrap, config.topics, kafka.librdkafka_options(), kafka.start_timeout_s
        )
        self._commits = CommitRows(settings.sink().commits_path) if settings.has_sink else None
        self._stop = threading.Event()
        self._has_looked = threading.Event()
        self._model: Model | None = None
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End; a look that has begun is finished or left."""
        self._stop.set()
        self._thread.join(_END_S)
        self._ledger.close()

    def model(self, wait_s: float = 0.0) -> Model | None:
        """What was seen last; None before the first look is over.

        Args:
            wait_s: how long to wait for the first look.
        """
        self._has_looked.wait(wait_s)
        return self._model

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._model = self.look()
            except Exception as error:  # noqa: BLE001 - told on the page, which would stand still
                _log.exception("look_failed")
                told = {"this page": f"{type(error).__name__}: {error}"}
                before = self._model or Model(Freshness(_now_ms(), None, {}, ()))
                self._model = replace(before, problems={**before.problems, **told})
            self._has_looked.set()
            self._stop.wait(self._every_s)

    def look(self) -> Model:
        """Ask all parts now."""
        freshness = self._reader.read()
        problems = dict(freshness.problems)
        publisher = _asked("publisher", self._publisher, problems)
        sink = _asked("sink", self._sink, problems)
        try:
            self._ledger.read()
        except KafkaException as error:
            problems.setdefault("topics", f"the progress topic: {error.args[0].str()}")
        ledger = self._ledger.ledger
        rows_of = {}
        for topic, count in ledger.rows_by_topic().items():
            name = self._config.topics.table_of(topic)
            if name is not None:
                rows_of[f"{name.schema}.{name.table}".casefold()] = count
        return Model(
            freshness,
            publisher,
            sink,
            put_together(freshness, publisher, sink, rows_of),
            tuple(ledger.strip(_now_ms(), self._cuts_ms(problems))),
            problems,
            has_lake=self._commits is not None,
        )

    def _cuts_ms(self, problems: dict[str, str]) -> Iterable[int]:
        if self._commits is None or "lake" in problems:
            return []
        from deltalake.exceptions import DeltaError

        try:
            return [row.committed_ms for row in self._commits.read()]
        except (DeltaError, OSError) as error:
            problems["lake"] = str(error)
            return []


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _asked(
    name: str, address: DaemonAddress | None, problems: dict[str, str]
) -> DaemonStatus | None:
    if address is None:
        return None
    try:
        return ask_status(address)
    except DaemonUnavailable as error:
        problems[name] = str(error)
        return None
