"""A bounded cache of what texts mean."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")


class TextCache(Generic[Meaning]):
    """Least recently used out first, bounded by the total length of the texts; thread-safe.

    Trees are some thirty times as large as their text, which is why texts are counted and not
    entries.
    """

    def __init__(self, characters_max: int, text_max: int) -> None:
        """An empty cache.

        Args:
            characters_max: of all texts together.
            text_max: longer texts are not kept.
        """
        self._characters_max = characters_max
        self._text_max = text_max
        self._known: OrderedDict[Hashable, tuple[int, Meaning]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, text: str, key: Hashable, make: Callable[[], Meaning]) -> Meaning:
        """The result of ``make`` for the text, now or before.

        Args:
            text: the text, which may be part of ``key``.
            key: what its meaning depends on.
            make: finds out; what it raises is not kept.
        """
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found[1]
        meaning = make()
        size = len(text)
        if size > self._text_max:
            return meaning
        with self._lock:
            if key not in self._known:
                self._known[key] = (size, meaning)
                self._characters += size
            while self._characters > self._characters_max:
                _, (dropped, _) = self._known.popitem(last=False)
                self._characters -= dropped
        return meaning
