"""Repairs rows of the lake: the publisher reads them again, and they are compared once more.

Theory of operation. The keys of the differing rows go to the publisher as a signal. It reads the
rows between two fences, and publishes each as it is, or as deleted (ADR 0105). The sink applies
these events as all others. So nothing is written to topics or lake from here, and a newer change
wins. A repair has ended at the publisher once no checkpoint names it. Then the rows
are compared at later cuts of the lake's tables until they are equal, or time is up. The log's tail
shows an event before the sink applies it, so it is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailrace.signals.request import SignalNotTaken, send, wait_for_outcome
from tailrace.verify.compare import Comparison
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.repairable import NotRepairable, repair_signal
from tailrace.verify.source_rows import wait_for
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import Key, TableShape
from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.errors import PublisherError
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import RegistryError

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig

_POLL_S = 1.0


class Repairs:
    """Repairs the rows that comparisons found.

    Args:
        wait_s: for the publisher to take a request, to publish it, and for equal rows in a cut.
    """

    def __init__(self, comparison: Comparison, config: PublisherConfig, wait_s: float) -> None:
        self._comparison = comparison
        self._config = config
        self._wait_s = wait_s

    def repair(self, shape: TableShape, result: TableResult) -> None:
        """Repair the differing rows of a table; the result says which of them are equal now.

        Raises:
            SourceError, SinkError: as :meth:`Comparison.compare`.
        """
        if not result.differs or result.problem is not None:
            return
        begun = time.monotonic()
        try:
            self._request(shape, result)
            self._compare(shape, result)
        except (NotRepairable, SignalNotTaken, NotProvable) as error:
            result.repair_problem = str(error)
        result.seconds += time.monotonic() - begun

    def _request(self, shape: TableShape, result: TableResult) -> None:
        """Have the publisher publish the rows; returns when it has.

        Raises:
            NotRepairable, SignalNotTaken: it has not.
        """
        rows = max(len(result.keys), result.differing.total()) + result.not_examined
        skipped = self._config.skip.operations_of(shape.table)
        signal = repair_signal(shape, result.keys, rows, skipped)
        offset = send(self._config, signal.to_bytes())
        refusals = wait_for_outcome(self._config, offset, self._wait_s)
        if refusals:
            raise NotRepairable(f"the publisher refused: {'; '.join(refusals)}")
        if not self._is_published(shape.table):
            raise NotRepairable(
                f"the publisher has not published the rows within {self._wait_s:g} s. Fix: check"
                " that it runs (tailrace status), or give --wait more seconds"
            )

    def _is_published(self, table: TableName) -> bool:
        """Wait until no publisher reads rows of a table for a repair; return whether that is so."""
        patience_s = self._config.kafka.start_timeout_s

        def is_over() -> bool | None:
            record = read_checkpoints(topics, patience_s).tables.get(table)
            return None if record is not None and record.repair is not None else True

        try:
            with open_topics(self._config) as topics:
                return wait_for(is_over, self._wait_s, _POLL_S) is not None
        except (PublisherError, RegistryError) as error:
            raise NotRepairable(f"requested, but the checkpoint cannot be read: {error}") from error

    def _compare(self, shape: TableShape, result: TableResult) -> None:
        """Compare the rows until they are equal.

        Raises:
            NotRepairable: time is up, and some differ.
            NotProvable, SourceError, SinkError: they cannot be compared.
        """
        left = settled_keys(
            lambda keys: self._comparison.differing_of(shape, keys, result),
            result.keys,
            self._wait_s,
        )
        result.repaired = len(result.keys) - len(left)
        if left:
            raise NotRepairable(
                f"{len(left):,} of {len(result.keys):,} rows still differ {self._wait_s:g} s after"
                " the publisher published them again. Fix: check that the sink runs, and that the"
                " publisher's log has no partial_snapshot_given_up; give --wait more seconds. If"
                f" they stay: tailrace snapshot {result.table}"
            )


def settled_keys(
    compare: Callable[[Sequence[Key]], Sequence[Key]],
    keys: Sequence[Key],
    limit_s: float,
    poll_s: float = _POLL_S,
) -> Sequence[Key]:
    """Compare rows again until none is left or time is up, at least once; return those left.

    Args:
        compare: returns the keys of rows that are not equal at the newest cut.
    """
    left = keys

    def is_over() -> bool | None:
        nonlocal left
        left = compare(left)
        return None if left else True

    wait_for(is_over, limit_s, poll_s)
    return left
