"""An operator divides the tables among shards, whose publishers take turns from then on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.errors import PublisherError, ReshardRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.records.shards import Shard, ShardMap
from tailrace_service.registry.access import RegistryError
from tests.simulation.world import Finding

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_SHARDS: Final = 2
_CALLS_MAX: Final = 100_000
_TURN_TICKS: Final = 200
"""Calls after which the next shard's publisher runs, while there are steps left."""


@dataclass(frozen=True, slots=True)
class Divided:
    """How the publishers of several shards are started."""

    config: PublisherConfig
    map: ShardMap


@dataclass(slots=True)
class Division:
    """How the tables are divided.

    Attributes:
        now: how publishers are started from now on, once an operator has divided the tables.
        maps: how the tables are divided, by the number of shards.
        is_half_done: whether ``tailrace reshard`` was interrupted.
    """

    sim: Simulation
    now: Divided | None = None
    maps: dict[int, ShardMap] = field(default_factory=lambda: {1: ShardMap()})
    is_half_done: bool = False
    _turns: int = 0

    def divide(self, shards: int, calls: int) -> None:
        """An operator runs ``tailrace reshard``, though a publisher may run; it may be killed.

        Raises:
            Finding: it failed for good.
        """
        sim = self.sim
        if self.now is not None or sim.shard.map.shards > 1:
            return
        config = PublisherConfig.load({**sim.scenario.options, "shards": {"count": shards}})
        self.is_half_done = True
        try:
            with sim.others.beside(calls) as ports:
                self._take(config, reshard(config, ports).after)
        except ReshardRefused as error:
            self.is_half_done = False
            if "already" in str(error):  # by the one before, whose commit it did not hear of
                with sim.others.beside(_CALLS_MAX) as ports:
                    self._take(config, agreed_map(config, ports))
        except (PublisherError, RegistryError) as error:
            if not error.retryable:
                raise Finding(f"reshard: {type(error).__name__}: {error}") from error
        sim.others.intrusions += 1
        sim.others.takeovers += 1  # it takes the transactional id and writes progress records

    def _take(self, config: PublisherConfig, found: ShardMap) -> None:
        self.now = Divided(config, found)
        self.maps[found.shards] = found
        self.is_half_done = False

    def finish(self) -> None:
        """What an operator does whose ``tailrace reshard`` was interrupted: runs it again.

        A run that fails has met a fault: nothing that an earlier run left stops it.
        """
        for _ in range(self.sim.faults.left + 1):
            if not self.is_half_done:
                return
            self.sim.broker.write_markers()  # they are late, and come while the operator waits
            self.divide(_SHARDS, _CALLS_MAX)
        if self.is_half_done:
            raise Finding("tailrace reshard that was interrupted does not come to its end")

    def take_turn(self) -> None:
        """Let the publisher of the shard start whose turn it is."""
        if self.now is not None:
            shards = self.now.map.shards
            self.sim.config = self.now.config
            self.sim.shard = Shard(self._turns % shards, self.now.map)
            self._turns += 1

    @property
    def is_outdated(self) -> bool:
        """Whether the publisher was started before the tables were divided."""
        return self.now is not None and self.sim.shard.map != self.now.map

    @property
    def is_turn_over(self) -> bool:
        """Whether the shards' publishers, which run in turns here, take the next one."""
        sim = self.sim
        if self.now is None or self.is_outdated or sim.ending.has_begun:
            return False
        return sim.world.ticks - sim.life_began > _TURN_TICKS

    @property
    def next_shard(self) -> Shard | None:
        """The shard after the publisher's, if they take turns."""
        if self.now is None or self.is_outdated:
            return None
        return Shard((self.sim.shard.number + 1) % self.now.map.shards, self.now.map)

    @property
    def numbers(self) -> range | list[int]:
        """Numbers of the shards that have to catch up."""
        return [self.sim.shard.number] if self.now is None else range(self.now.map.shards)
