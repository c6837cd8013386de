"""Encoding around events that do not fit, which become dead letters (``on_bad_event``).

A refused page is halved until the refused part is one event. So one bad value in two thousand rows
costs some twenty encodings of ever smaller parts, and a page that fits costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tailrace_publisher.encode.encoded_events import EncodedRows, joined_rows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_kinds import RawRow
from tailrace_publisher.errors import EncodeError
from tailrace_publisher.options.events import OnBadEvent
from tailrace_schemas.position.change_position import ChangePosition, Operation, pack_position
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter, row_of

_VALUES: Final = 5
"""Index of the first column value in a change row."""


def encoding_of(policy: OnBadEvent) -> Callable[..., EncodedRows]:
    """Return the function that encodes change rows: :func:`encode_around`, or the plain encoder."""
    return encode_around if policy is OnBadEvent.DEAD_LETTER else EnvelopeEncoder.encode


def encode_around(
    encoder: EnvelopeEncoder,
    rows: Sequence[RawRow],
    commit_ms: Mapping[bytes, int],
    processed_ms: int | None = None,
    *,
    is_whole: bool = True,
) -> EncodedRows:
    """Encode change rows; events that do not fit become dead letters among them.

    Args:
        encoder: of the rows' version.
        rows: see :meth:`EnvelopeEncoder.encode`, which also describes the other arguments.

    Raises:
        EncodeError: the change table is damaged.
    """
    try:
        return encoder.encode(rows, commit_ms, processed_ms, is_whole=is_whole)
    except EncodeError as error:
        if not error.is_of_event:
            raise
        middle = _middle(rows)
        if not middle:
            return _letter(encoder, rows, error)
    halves = (rows[:middle], rows[middle:])
    return joined_rows(
        [
            encode_around(encoder, half, commit_ms, processed_ms, is_whole=is_whole)
            for half in halves
        ]
    )


def _middle(rows: Sequence[RawRow]) -> int:
    """Return where to halve rows without splitting an update; 0 if they are one event's."""
    middle = len(rows) // 2
    if middle and rows[middle][3] == Operation.UPDATE_AFTER:
        middle += 1 if middle + 1 < len(rows) else -1
    return middle


def _letter(encoder: EnvelopeEncoder, rows: Sequence[RawRow], error: EncodeError) -> EncodedRows:
    """Return one event as a dead letter, at the position of its last row."""
    last = rows[-1]
    is_before = last[3] == Operation.DELETE
    before = rows[0] if is_before or len(rows) > 1 else None
    images = [
        None if row is None else row[_VALUES:] for row in (before, None if is_before else last)
    ]
    position = pack_position(last[0], last[1], last[2], last[3])
    letter = _dead_letter(encoder, error, ChangePosition.from_bytes(position), images)
    return EncodedRows(
        encoder.topic,
        encoder.schema_id,
        [position],
        [None],
        [b""],
        table=encoder.schema.table,
        lacks_operations=bool(encoder.treatment.skipped),
        letters={0: letter},
    )


def encode_images_around(
    encoder: EnvelopeEncoder, rows: Sequence[Sequence[Any]], read_at: Lsn
) -> tuple[list[bytes], list[bytes | None], dict[int, DeadLetter]]:
    """Encode snapshot rows as images and keys; a row that does not fit gets a dead letter instead.

    Args:
        encoder: of the rows' version.
        rows: values in the schema's order.
        read_at: for errors, as in :meth:`EnvelopeEncoder.encode_images`.
    """
    try:
        return *encoder.encode_images(rows, read_at), {}
    except EncodeError as error:
        if not error.is_of_event:
            raise
        if len(rows) == 1:
            position = ChangePosition.of_snapshot(read_at)
            return [b""], [None], {0: _dead_letter(encoder, error, position, [None, rows[0]])}
    middle = len(rows) // 2
    images, keys, letters = encode_images_around(encoder, rows[:middle], read_at)
    more, more_keys, later = encode_images_around(encoder, rows[middle:], read_at)
    moved = {middle + index: letter for index, letter in later.items()}
    return images + more, keys + more_keys, letters | moved


def _dead_letter(
    encoder: EnvelopeEncoder,
    error: EncodeError,
    position: ChangePosition,
    images: Sequence[Sequence[Any] | None],
) -> DeadLetter:
    return DeadLetter(
        table=str(encoder.schema.table),
        topic=encoder.topic,
        position=position,
        error=type(error).__name__,
        reason=error.reason,
        column=error.column,
        row=row_of(encoder.schema.columns, *images),
    )
