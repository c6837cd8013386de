"""The built-in functions: a builder (type, SQLite text) each, and a function where SQLite has none.

Importing this package fills the registry.
"""

from __future__ import annotations

from tailrace_emulator.tsql.functions import (
    accumulators,
    aggregates,
    compression,
    conditional,
    date_arithmetic,
    date_parts,
    dates,
    formats,
    json_functions,
    masking,
    mathematics,
    message_text,
    of_triggers,
    operators,
    session,
    string_codes,
    strings,
    table_functions,
    text_bounds,
    text_pointer,
    text_search,
    xml_methods,
)
from tailrace_emulator.tsql.functions.registry import BUILDERS
from tailrace_emulator.tsql.functions.sqlite_functions import register_functions

__all__ = [
    "BUILDERS",
    "accumulators",
    "aggregates",
    "compression",
    "conditional",
    "date_arithmetic",
    "date_parts",
    "dates",
    "formats",
    "json_functions",
    "masking",
    "mathematics",
    "message_text",
    "of_triggers",
    "operators",
    "register_functions",
    "session",
    "string_codes",
    "strings",
    "table_functions",
    "text_bounds",
    "text_pointer",
    "text_search",
    "xml_methods",
]
