"""A publisher of the shards that Kafka's consumer group assigns to it.

A conductor publishes each shard on a thread of its own, with its own connections, producer, state
and metrics. No shard waits for another's snapshots, locks or commits, and an error in one does not
end the others. A revoked shard ends like the whole publisher ends on a signal. What was sent is
committed as far as it was read, and the next publisher continues from there. The shard is given
away even if its conductor does not end in time: then the next publisher fences it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import structlog
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.process.shard_group import ShardGroup, member_options
from tailrace_publisher.daemon.process.supervised import Supervised
from tailrace_publisher.daemon.session.conductor import Conductor
from tailrace_publisher.daemon.shards.agreed_map import agreed_map, wanted_map
from tailrace_publisher.daemon.status.shard_board import ShardBoard
from tailrace_publisher.errors import PublisherError, PublisherReplaced, ShardsDiffer
from tailrace_publisher.errors.one_table import text_of
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime, Step
from tailrace_schemas.records.shards import Shard, ShardMap, group_id
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_LOOK_S: Final = 0.2
_LEAVE_S: Final = 30.0
"""How long to wait for a revoked shard's conductor before the shard is given away. Longer than most
commits, and much shorter than max.poll.interval.ms, after which the group removes this member."""


@dataclass(slots=True)
class _OwnShard:
    """A shard that is published here."""

    runs: Supervised
    stop: threading.Event = field(default_factory=threading.Event)


class SharingPublisher:
    """A publisher of the shards that are assigned to it.

    Args:
        runtime: what all parts share; its metrics are those of the publisher itself.

    Attributes:
        board: the status of the publisher.
        metrics: the metrics of its shards.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._map = wanted_map(runtime.config)
        self._own: dict[int, _OwnShard] = {}
        self._unknown: list[int] = []
        self._backoff = Backoff(runtime.config.retry_backoff_max_s)
        self.board = ShardBoard(runtime)
        self.metrics: Collector = self.board.metrics

    def run(self) -> None:
        """Publish until the stop is set, or until nothing more is wanted of any shard.

        Raises:
            PublisherError: an error of all shards here that waiting does not cure.
        """
        config, stop = self._runtime.config, self._runtime.stop
        while not stop.is_set():
            try:
                self._map = agreed_map(config, self._runtime.ports)
                self._share(self._map)
            except PublisherError as error:
                if not error.retryable:
                    _log.error("publisher_failed", error=type(error).__name__, reason=str(error))
                    raise
                self.board.failed(error)
                _log.warning("retrying", error=type(error).__name__, reason=str(error))
                self._runtime.clock.wait(self._backoff.next_s(), stop)
            else:
                return

    def _share(self, shards: ShardMap) -> None:
        config = self._runtime.config
        database = config.source.database
        group = group_id(config.prefix, database)
        options = member_options(config.kafka.connection(), group, config.shards.session_timeout_s)
        _log.info("shards_shared", group=group, shards=shards.shards, map=shards.number)
        member = self._runtime.ports.join(options)
        sharing = ShardGroup(member, config.topics.control, self._take, self._leave)
        try:
            while not self._runtime.stop.is_set() and not self._is_over():
                sharing.look(_LOOK_S)
                self._check_known()
                self.board.turned()
        finally:
            self._leave(list(self._own))
            sharing.close()

    def _take(self, numbers: Sequence[int]) -> None:
        self._unknown = [number for number in numbers if number >= self._map.shards]
        for number in numbers:
            if number < self._map.shards:
                _log.info("shard_taken", shard=number)
                self._own[number] = _OwnShard(Supervised(f"shard-{number}", self._runtime))
                self._start(number)
        self.board.joined()

    def _check_known(self) -> None:
        """Check that the map has every shard that the group assigned.

        Raises:
            ShardsDiffer: the control topic has more partitions.
        """
        if self._unknown:
            raise ShardsDiffer(
                f"topic {self._runtime.config.topics.control} has a partition"
                f" {self._unknown[-1]}, but this publisher's map has {self._map.shards} shards:"
                " tailrace reshard divided the tables again, or somebody added partitions. Fix:"
                " start the publisher with the publisher.shards that tailrace reshard was given"
            )

    def _start(self, number: int) -> None:
        own = self._own[number]
        runtime = replace(
            self._runtime,
            metrics=Metrics(),
            stop=own.stop,
            shard=Shard(number, self._map),
            on_step=partial(self._stepped, number, own.runs),
        )
        conductor = Conductor(runtime)
        self.board.add(number, conductor.board, runtime.metrics)
        own.runs.start(partial(_publish, number, conductor))

    def _stepped(self, number: int, runs: Supervised, step: Step) -> None:
        if attempts := runs.recovered_after(step):
            _log.info("shard_resumed", shard=number, attempts=attempts)
        if step in {Step.COMMITTED, Step.HEARTBEAT}:  # joining proves nothing: every start joins
            self._backoff.reset()
        self._runtime.on_step(step)

    def _leave(self, numbers: Sequence[int]) -> None:
        left = {number: self._own.pop(number) for number in numbers if number in self._own}
        for own in left.values():
            own.stop.set()
        wait([own.runs.ending for own in left.values()], _LEAVE_S)
        for number, own in left.items():
            own.runs.close(wait=False)
            self.board.remove(number)
            if not own.runs.is_running:
                _log.info("shard_left", shard=number)
            else:
                _log.warning(
                    "shard_left_open",
                    shard=number,
                    waited_s=_LEAVE_S,
                    effect="the publisher that gets the shard fences this one",
                )

    def _is_over(self) -> bool:
        """Check the conductors; return whether all shards here have ended regularly.

        Raises:
            PublisherError: the error of the conductors, if none of them runs.
        """
        ended = {n: own.runs for n, own in self._own.items() if not own.runs.is_running}
        for number, runs in ended.items():
            if error := runs.new_failure():
                self._failed(number, runs, error)
        failed = {n: runs for n, runs in ended.items() if runs.error is not None}
        if failed and len(failed) == len(self._own):
            self._raise_unless_fenced(failed)
        for number, runs in failed.items():
            if runs.is_due:
                self._start(number)
        return bool(self._own) and len(ended) == len(self._own) and not failed

    def _failed(self, number: int, runs: Supervised, error: BaseException) -> None:
        pause_s = runs.retry_later()
        self.board.failed(error)
        _log.error(
            "shard_failed",
            shard=number,
            error=type(error).__name__,
            reason=text_of(error),
            effect="its tables are not published; the other shards continue",
            retry_in_s=round(pause_s, 2),
        )

    def _raise_unless_fenced(self, failed: dict[int, Supervised]) -> None:
        """End if no shard runs.

        A fenced shard already belongs to another publisher, although the group has not reported it
        yet. A shard with an unforeseen error is retried here: if this process ended, the error
        would move on to the next publisher.

        Raises:
            PublisherError: the error of the first of the others.
        """
        for error in (runs.error for runs in failed.values()):
            if isinstance(error, PublisherError) and not isinstance(error, PublisherReplaced):
                raise error


def _publish(number: int, conductor: Conductor) -> None:
    """Run the conductor, with the shard's number in each log event of its thread."""
    with structlog.contextvars.bound_contextvars(shard=number):
        conductor.run()
