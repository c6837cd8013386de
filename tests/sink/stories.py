"""Tests that share a lake: each is a story of tables of its own, and all of them move in step.

A story writes at the source and yields. When all have yielded, one batch takes what they wrote into
the lake, and each continues by looking at its tables. A module has as many batches as its longest
story instead of as many as all of them together. A story that yields ``LOGGED`` continues when what
it wrote is in the lake's log and in no table. A story that fails fails alone::

    shared = Stories()

    @shared
    def test_a_row_is_there(source: Source, lake: Lake) -> Story:
        table = source.table("one", ID)
        source.commit(lambda t: t.insert(table, id=1))
        yield
        assert lake.by_key(table) == table.rows
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.envelopes.source import Source

if TYPE_CHECKING:
    from tests.sink.conftest import Lake

LOGGED: Final = "logged"
Story = Iterator[Any]
"""Yields nothing, or ``LOGGED``."""
Failures = Mapping[str, Exception]
"""What ended stories early, by their names."""


class Stories:
    """The stories of a module.

    Args:
        guarantee: that they hold with the first variant in ``make test``; the mark ``guarantee``.
        variants: options of the sink by a name; the stories are told once with each, in a lake of
            its own.
    """

    def __init__(self, guarantee: int | None = None, /, **variants: Mapping[str, Any]) -> None:
        self._guarantee = guarantee
        self._variants = variants or {"default": {}}
        self._tellers: dict[str, Callable[[Source, Lake], Story]] = {}
        self._only: dict[str, Collection[str]] = {}

    def only(self, *variants: str) -> Callable[[Callable[[Source, Lake], Story]], Any]:
        """Make a test of a story that is told with some variants."""

        def make(teller: Callable[[Source, Lake], Story]) -> Callable[..., None]:
            self._only[teller.__name__] = variants
            return self(teller)

        return make

    def __call__(self, teller: Callable[[Source, Lake], Story]) -> Callable[..., None]:
        """Make a test of a story."""
        name = teller.__name__
        self._tellers[name] = teller
        variants = self._only.setdefault(name, tuple(self._variants))

        def test(told: Failures, variant: str) -> None:
            failure = told.get(name)
            if failure is not None:
                raise failure

        test.stories = self  # type: ignore[attr-defined]
        test.__name__ = test.__qualname__ = name
        test.__doc__, test.__module__ = teller.__doc__, teller.__module__
        return pytest.mark.parametrize("variant", [self._marked(name) for name in variants])(test)

    def _marked(self, variant: str) -> Any:
        """A variant for pytest; the first one has the mark of the guarantee."""
        if self._guarantee is None or variant != next(iter(self._variants)):
            return variant
        return pytest.param(variant, marks=pytest.mark.guarantee(self._guarantee))

    def tell(self, lake: Lake, variant: str, wanted: Collection[str]) -> Failures:
        """Tell the stories with some names to their end, in one lake."""
        lake.options |= self._variants[variant]
        failures: dict[str, Exception] = {}
        going = {
            name: teller(lake.source, lake)
            for name, teller in self._tellers.items()
            if name in wanted and variant in self._only[name]
        }
        ready = set(going)
        while going:
            logged = set()
            for name in [name for name in going if name in ready]:
                try:
                    if next(going[name]) == LOGGED:
                        logged.add(name)
                except StopIteration:
                    del going[name]
                except Exception as failure:  # noqa: BLE001 - its own test raises it
                    failures[name] = failure
                    del going[name]
            ready = logged or set(going)
            if going:
                lake.source.publish()
                if logged:
                    lake.log_only()
                else:
                    lake.catch_up()
        return failures
