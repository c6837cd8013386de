"""The built-in functions: each as a builder (types, SQLite text) and, where SQLite lacks it, a function.

Importing this package fills the registry.
"""

from __future__ import annotations

from emulator.tsql.functions import (
    aggregates,
    conditional,
    date_arithmetic,
    date_parts,
    dates,
    mathematics,
    operators,
    session,
    strings,
    text_search,
)
from emulator.tsql.functions.registry import BUILDERS, register_functions

__all__ = [
    "BUILDERS",
    "aggregates",
    "conditional",
    "date_arithmetic",
    "date_parts",
    "dates",
    "mathematics",
    "operators",
    "register_functions",
    "session",
    "strings",
    "text_search",
]
