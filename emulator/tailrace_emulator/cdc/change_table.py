"""Change tables: their columns, and how a logged row change becomes change rows.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql

Rules kept here (documented): Inserts are operation 2, deletes 1, updates 3 then 4. The update mask
has all bits on insert and delete, and the changed columns on both rows of an update. Text, ntext
and image are NULL in operations 1 and 3. The (max) types are NULL in operation 3 unless the column
changed. Computed columns are always NULL. Columns that the image does not have (dropped since) are
NULL. Rowversion is captured as binary(8) and identity columns as int or bigint. Inferred: xml
follows the (max) rule; an update that changed no captured column makes no change rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from tailrace_emulator.cdc.update_mask import full_mask, mask_bytes
from tailrace_emulator.log.records import RowAction, RowChange, RowImage
from tailrace_emulator.storage.model import Column, EncodedColumns, Index
from tailrace_emulator.values.types import (
    BIGINT,
    INT,
    LSN,
    MAX,
    SqlType,
    StorageValue,
    unpack_decimal,
    varbinary,
)

if TYPE_CHECKING:
    from tailrace_emulator.cdc.capture_instance import CaptureInstance
    from tailrace_emulator.storage.model import Table

METADATA_COLUMNS: Final = (
    ("__$start_lsn", LSN, False),
    ("__$end_lsn", LSN, True),
    ("__$seqval", LSN, False),
    ("__$operation", INT, False),
    ("__$update_mask", varbinary(128), True),
)
COMMAND_ID: Final = "__$command_id"
RESERVED_NAMES: Final = frozenset(name for name, _, _ in METADATA_COLUMNS)
CLUSTERED_KEY: Final = ("__$start_lsn", COMMAND_ID, "__$seqval", "__$operation")

DELETE: Final = 1
INSERT: Final = 2
UPDATE_BEFORE: Final = 3
UPDATE_AFTER: Final = 4

_LEGACY_LOB_TYPES: Final = ("text", "ntext", "image")


def captured_type(column: Column) -> SqlType:
    """The type that a captured column has in the change table."""
    if column.type.name in {"timestamp", "rowversion"}:
        return SqlType("binary", length=8)
    if column.identity is not None:
        return INT if column.type.name in {"tinyint", "smallint", "int"} else BIGINT
    return column.type


def change_table_columns(captured: list[Column]) -> tuple[Column, ...]:
    """All columns of a change table over those source columns, in documented order.

    They have the masks of the source table's columns. Inferred from ``sys.sp_cdc_vupgrade`` of SQL
    Server 2022, which masks the columns of change tables that were created before.
    """
    columns = [(*column, "") for column in METADATA_COLUMNS]
    columns += [(column.name, captured_type(column), True, column.mask) for column in captured]
    columns.append((COMMAND_ID, INT, True, ""))
    return tuple(
        Column(column_id, name, sql_type, nullable, mask=mask)
        for column_id, (name, sql_type, nullable, mask) in enumerate(columns, 1)
    )


def encoded_columns(columns: Sequence[Column]) -> EncodedColumns:
    """Which columns of a change table are kept encoded: the captured ones."""
    return EncodedColumns(len(METADATA_COLUMNS), len(columns) - 1)


def change_table_indexes(
    instance: str, columns: tuple[Column, ...], net_changes_key: tuple[str, ...]
) -> tuple[Index, ...]:
    """The indexes of a change table: the clustered one, and one that finds the changes of a row.

    Args:
        columns: of the change table.
        net_changes_key: the columns that identify a source row, in the order of their index. Empty
            if the instance does not support net changes, for which the index exists.
    """
    ids = {column.name: column.column_id for column in columns}
    clustered = tuple(ids[name] for name in CLUSTERED_KEY)
    found = [
        Index(
            1,
            f"{instance}_CT_clustered_idx",
            clustered,
            (False,) * len(clustered),
            unique=True,
            clustered=True,
        )
    ]
    if net_changes_key:
        key = (*(ids[name] for name in net_changes_key), *clustered)
        found.append(
            Index(2, f"{instance}_CT_idx", key, (False,) * len(key), unique=True, is_kept=False)
        )
    return tuple(found)


ChangeRow = tuple[StorageValue, ...]
"""A full row of a change table, in column order."""


ImageValues = Callable[[RowImage], tuple[StorageValue, ...]]
"""Picks the captured values out of an image."""


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Turns the images of one shape into captured values of one instance.

    Attributes:
        values: the captured values of an image, in ordinal order, before the LOB rules.
        legacy_lobs: positions of text, ntext and image columns.
        max_lobs: positions of (max) and xml columns.
    """

    values: ImageValues
    legacy_lobs: tuple[int, ...]
    max_lobs: tuple[int, ...]


def image_reader(
    instance: CaptureInstance,
    source: Table | None,
    change_table: Table,
    column_ids: tuple[int, ...],
) -> ImageReader:
    """The reader for images whose values are of ``column_ids``.

    Args:
        instance: whose captured columns to pick.
        source: the source table, or None where it was dropped since.
        change_table: the instance's change table, for the types that the values must have.
        column_ids: the shape of the images.
    """
    positions = {column_id: position for position, column_id in enumerate(column_ids)}
    nothing = len(column_ids)  # position of the NULL appended to every image
    picks: list[int] = []
    legacy: list[int] = []
    large: list[int] = []
    unpacked: list[int] = []
    first = len(METADATA_COLUMNS)
    for place, captured in enumerate(instance.columns):
        column = source.column_by_id(captured.column_id) if source is not None else None
        computed = captured.is_computed or (column is not None and column.computed is not None)
        picks.append(nothing if computed else positions.get(captured.column_id, nothing))
        stored = change_table.columns[first + place].type
        if stored.name in _LEGACY_LOB_TYPES:
            legacy.append(place)
        elif stored.length == MAX or stored.name == "xml":
            large.append(place)
        if column is not None and column.identity is not None and column.type.is_wide_decimal:
            unpacked.append(place)
    return ImageReader(_picker(picks, nothing, unpacked), tuple(legacy), tuple(large))


def _picker(picks: list[int], nothing: int, unpacked: list[int]) -> ImageValues:
    pick: ImageValues
    if len(picks) == 1:
        only = picks[0]
        pick = lambda image: ((*image, None)[only],)  # noqa: E731 - one of three of a kind
    elif nothing not in picks:
        pick = itemgetter(*picks)
    else:
        get: ImageValues = itemgetter(*picks)
        pick = lambda image: get((*image, None))  # noqa: E731 - one of three of a kind
    if not unpacked:
        return pick

    def pick_integers(image: RowImage) -> tuple[StorageValue, ...]:
        values = list(pick(image))
        for place in unpacked:
            value = values[place]
            if isinstance(value, bytes):
                values[place] = unpack_decimal(value)
        return tuple(values)

    return pick_integers


def change_rows(
    reader: ImageReader, commit_lsn: bytes, change: RowChange, everything: bytes
) -> tuple[ChangeRow, ...]:
    """The change rows of one logged row change: none, one or two.

    Args:
        reader: made for the shape of the change's images.
        commit_lsn: stored as __$start_lsn of the rows.
        everything: the full update mask of the instance.
    """
    if change.action is RowAction.INSERT:
        after = reader.values(change.after or ())
        return ((commit_lsn, None, change.seqval, INSERT, everything, *after, change.command_id),)
    before = reader.values(change.before or ())
    if change.action is RowAction.DELETE:
        if reader.legacy_lobs:
            before = _nulled(before, reader.legacy_lobs)
        return ((commit_lsn, None, change.seqval, DELETE, everything, *before, change.command_id),)
    after = reader.values(change.after or ())
    bits = 0
    bit = 1
    for old, new in zip(before, after, strict=True):
        if old != new:
            bits |= bit
        bit <<= 1
    if not bits:
        return ()
    hidden = [place for place in reader.max_lobs if not bits >> place & 1]
    if hidden or reader.legacy_lobs:
        before = _nulled(before, (*hidden, *reader.legacy_lobs))
    mask = mask_bytes(bits, len(after))
    seqval, command_id = change.seqval, change.command_id
    return (
        (commit_lsn, None, seqval, UPDATE_BEFORE, mask, *before, command_id),
        (commit_lsn, None, seqval, UPDATE_AFTER, mask, *after, command_id),
    )


def _nulled(values: tuple[StorageValue, ...], places: tuple[int, ...]) -> tuple[StorageValue, ...]:
    changed = list(values)
    for place in places:
        changed[place] = None
    return tuple(changed)


def everything_mask(instance: CaptureInstance) -> bytes:
    """The update mask of the instance's inserts and deletes."""
    return full_mask(len(instance.columns))
