"""SET TEXTSIZE: how much of a large value clients are sent.

https://learn.microsoft.com/sql/t-sql/statements/set-textsize-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.catalog.set_options import TEXTSIZE_MAX
from tailrace_emulator.tsql.conversions.families import is_national
from tailrace_emulator.tsql.conversions.texts import clip
from tailrace_emulator.values.collations import page_of
from tailrace_emulator.values.types import MAX, SqlType

if TYPE_CHECKING:
    from tailrace_emulator.catalog.set_options import SetOptions
    from tailrace_emulator.values.results import ColumnMeta
    from tailrace_emulator.values.types import StorageValue

_OLD_LARGE: Final = frozenset({"text", "ntext", "image"})

Row = tuple["StorageValue", ...]
Clip = Callable[[Any], Any]


def is_limited(options: SetOptions) -> bool:
    """Whether large values are cut."""
    return 0 < options.textsize < TEXTSIZE_MAX


def cut_values(
    chunks: Iterator[list[Row]], columns: Sequence[ColumnMeta], size: int
) -> Iterator[list[Row]]:
    """Rows with their large values cut to ``size`` bytes; xml is sent whole."""
    cuts = {n: _cut(c.type, size) for n, c in enumerate(columns) if _is_large(c.type)}
    if not cuts:
        yield from chunks
        return
    for rows in chunks:
        yield [
            tuple(
                value if value is None or n not in cuts else cuts[n](value)
                for n, value in enumerate(row)
            )
            for row in rows
        ]


def _is_large(sql_type: SqlType) -> bool:
    if sql_type.name in _OLD_LARGE:
        return True
    return sql_type.length == MAX and sql_type.name in {"varchar", "nvarchar", "varbinary"}


def _cut(sql_type: SqlType, size: int) -> Clip:
    """Cuts one value; half a UTF-16 unit is none."""
    if sql_type.name in {"varbinary", "image"}:
        return lambda value: value[:size]
    if is_national(sql_type):
        return lambda value: clip(value, size // 2, None)
    page = page_of(sql_type.collation)
    return lambda value: clip(value, size, page)
