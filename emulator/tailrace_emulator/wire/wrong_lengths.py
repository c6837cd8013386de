"""Rows with a value whose length its type cannot have: they are taken all the same, to be refused.

The message continues after such a row, so one value more or less must not lose the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_emulator.wire.errors import WrongLengthError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types import Value
from tailrace_emulator.wire.types.base import Decoder


def take_anyway(
    reader: Reader, decoders: Sequence[Decoder | None]
) -> tuple[tuple[Value, ...], int]:
    """A row's values, and which is the first of them with a wrong length, counted from 1.

    Args:
        reader: at the row's first value.
        decoders: of the columns; None for those that the row leaves out.
    """
    values: list[Value] = []
    wrong = 0
    for number, decode in enumerate(decoders, 1):
        try:
            values.append(None if decode is None else decode(reader))
        except WrongLengthError as error:
            reader.take(error.length)
            values.append(None)
            wrong = wrong or number
    return tuple(values), wrong
