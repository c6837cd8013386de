"""tailrace reshard, killed between its steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from emulator.tests.forked import forked
from tailrace_publisher.daemon.adapters.production import ConfluentClients, production_ports
from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.options.publisher_config import PublisherConfig
from tests.pipeline.running import LIMIT_S


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


def kill_reshard(options: dict[str, Any], call: str, number: int = 1) -> None:
    """Run it as a process until it kills itself at a call of a Kafka client.

    Args:
        options: of the publishers.
        call: name of the method.
        number: which of its calls.
    """
    process = forked.Process(target=_reshard, args=(options, Death(call, number)))
    process.start()
    process.join(LIMIT_S)
    assert process.exitcode == -signal.SIGKILL
