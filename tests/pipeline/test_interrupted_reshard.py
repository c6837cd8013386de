"""tailrace reshard, killed between its steps and run again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tailrace_publisher.config import PublisherConfig
from tailrace_publisher.daemon.production import ConfluentClients, production_ports
from tailrace_publisher.daemon.reshard import reshard
from tests.forked import forked
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import LIMIT_S, Running
from tests.pipeline.test_shards import (
    assert_ledger,
    is_caught_up,
    progress_of,
    shop,  # noqa: F401 - a fixture
)
from tests.pipeline.test_sharing import SHARDS

pytestmark = pytest.mark.kafka


@dataclass
class Death:
    """At which call of a Kafka client the process kills itself.

    Attributes:
        call: name of the method.
        number: which of its calls, from 1 on.
    """

    call: str
    number: int = 1

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.number -= 1
            if self.number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return called


class Watched:
    """A client, of which one method may be the last that is called."""

    def __init__(self, client: Any, death: Death) -> None:
        self._client = client
        self._death = death

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._death.around(found) if name == self._death.call else found


class WatchedClients(ConfluentClients):
    def __init__(self, death: Death) -> None:
        self._death = death

    def producer(self, options: Mapping[str, Any]) -> Any:
        return Watched(super().producer(options), self._death)

    def admin(self, options: Mapping[str, Any]) -> Any:
        return Watched(super().admin(options), self._death)


def _reshard(options: dict[str, Any], death: Death) -> None:
    ports = replace(production_ports(), kafka=WatchedClients(death))
    reshard(PublisherConfig.load(options), ports)


def killed(pipe: Pipe, death: Death) -> None:
    process = forked.Process(target=_reshard, args=(pipe.options(shards=SHARDS), death))
    process.start()
    process.join(LIMIT_S)
    assert process.exitcode == -signal.SIGKILL


def test_a_reshard_that_is_killed_is_run_again(shop: Pipe):  # noqa: F811
    sharing = shop.config(shards=SHARDS)
    with Running(shop.config()) as publisher:
        publisher.until(shop.is_caught_up, "it is published by one")
    before = progress_of(shop, 0)[-1]
    # One topic has its partitions, the other not; then all is written, and not committed.
    for death, config in (
        (Death("create_partitions", 2), shop.config()),
        (Death("commit_transaction"), sharing),
    ):
        killed(shop, death)
        with Running(config) as publisher:
            assert "run tailrace reshard" in str(publisher.ended())
    assert progress_of(shop, 0)[-1] == before
    shop.source.execute("INSERT dbo.t1 VALUES (4, 4)")
    assert reshard(sharing).tables == (1, 1, 1)
    with Running(sharing) as publisher:
        publisher.until(lambda: is_caught_up(shop, 3), "they go on")
        assert len(publisher.told("checkpoint_found")) == 3
    assert_ledger(shop, 3)
    shop.assert_exactly_once("t1")
