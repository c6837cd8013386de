"""A catalog that changes while it is read: nothing of that reading is taken for known later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import combinations

from tailrace_publisher.errors import SourceError
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, read_catalog
from tests.simulation.scripted.resting import RestingModel

_RESET = 10054
_STATEMENTS = range(1, 12)
"""More than a reading of the catalog has."""


class Reading:
    """Readings of the catalog, with something that happens before one of their statements."""

    def __init__(self) -> None:
        self.sim = RestingModel().sim
        self._instances = self.sim.group.database.instances
        self._all = dict(self._instances)

    def read(self, known: KnownCatalog, happens: Callable[[int], None] = lambda _: None) -> Catalog:
        source = self.sim.source
        source.tick = lambda: None
        with source.connect(self.sim.config.source) as connection:
            source.tick = lambda: happens(connection.queries)
            return read_catalog(connection, "shop", {}, known)

    def hide(self) -> None:
        """A capture instance is gone."""
        self._instances.popitem()

    def restore(self) -> None:
        """All are as they were."""
        self._instances.update(self._all)

    def is_as_read_now(self, known: KnownCatalog) -> bool:
        return self.read(known) == self.read(KnownCatalog())


def test_an_instance_that_goes_while_it_is_read_is_read_again_when_it_is_back() -> None:
    reading = Reading()
    for gone, broken in combinations(_STATEMENTS, 2):
        known, left = KnownCatalog(), [gone, broken]

        def happens(statement: int, left: list[int] = left) -> None:
            if left and statement >= left[0]:
                reading.hide() if len(left) == 2 else reading.sim.source.errors.append(_RESET)
                left.pop(0)

        with suppress(SourceError):
            reading.read(known, happens)
        reading.sim.source.errors.clear()
        reading.restore()

        assert reading.is_as_read_now(known), (gone, broken)
