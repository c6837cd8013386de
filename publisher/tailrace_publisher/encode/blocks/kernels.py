"""One kernel per form of a column: cells in, the column's Avro bytes of every row out.

The output may still be the memory of the cells. It is joined before they are filled again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tailrace_publisher.encode.blocks import number_kernels, text_kernels
from tailrace_publisher.encode.blocks.cells import Cells, Kernel
from tailrace_publisher.encode.columns.column_encoders import hash_of_column
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_publisher.encode.columns.varint import PRESENT
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import TransformKind


def kernel_of(column: SchemaColumn, cell: Cell, hashes: ValueHash | None = None) -> Kernel:
    """Return the kernel of a column's cells.

    The kernel raises Declined if a value does not fit; the reference then reports it. It raises
    NotAscii if the values fit into wider cells.

    Raises:
        ValueError: a hashed column lacks its hash function, or has one with another salt.
    """
    prefix = b"" if column.is_required else PRESENT
    if column.transform is not None and column.transform.kind is TransformKind.HASH:
        return text_kernels.hashes(hash_of_column(column.transform, hashes), prefix)
    make = _KERNELS[cell.form]
    encode = make(cell, prefix)
    if prefix:
        return encode

    def refuse_null(cells: Cells) -> tuple[Any, ...]:
        if cells.nulls is not None:
            raise Declined("NULL in a key column")
        return encode(cells)

    return refuse_null


_KERNELS: Final[dict[Form, Callable[[Cell, bytes], Kernel]]] = {
    Form.BIT: number_kernels.bits,
    Form.LONG: number_kernels.longs,
    Form.SINGLE: number_kernels.floats,
    Form.DOUBLE: number_kernels.floats,
    Form.NUMERIC: number_kernels.numerics,
    Form.DATE: number_kernels.dates,
    Form.TIMESTAMP: number_kernels.timestamps,
    Form.TIME: number_kernels.times,
    Form.TIMESTAMP_OFFSET: number_kernels.timestamp_offsets,
    Form.GUID: text_kernels.guids,
    Form.TEXT: text_kernels.texts,
    Form.ASCII: text_kernels.ascii_texts,
    Form.BYTES: text_kernels.binaries,
}
