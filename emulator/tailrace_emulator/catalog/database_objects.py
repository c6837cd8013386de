"""An object of a database as the catalog lists it, whatever it is stored as."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import ModuleParameter
    from tailrace_emulator.storage.model import Column


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """One row of sys.objects."""

    object_id: int
    schema: str
    name: str
    type: str
    parent_object_id: int = 0
    create_ticks: int = 0
    modify_ticks: int = 0
    is_ms_shipped: bool = False


def derived_id(owner: int, name: str) -> int:
    """The id of an object that storage gives none: constraints, what an extension makes."""
    return zlib.crc32(f"{owner}/{name.casefold()}".encode()) & 0x3FFF_FFFF | 0x4000_0000


@dataclass(frozen=True, slots=True)
class GeneratedObject:
    """An object that an extension makes in a database; storage has no such object.

    Attributes:
        parameters: its parameters, in order.
        columns: makes the columns that it returns.
        text: makes its T-SQL; None for a module that does not show its text.
    """

    item: DatabaseObject
    parameters: tuple[ModuleParameter, ...] = ()
    columns: Callable[[], tuple[Column, ...]] = tuple
    text: Callable[[], str] | None = None
