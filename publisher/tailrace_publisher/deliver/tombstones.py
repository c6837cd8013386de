"""Tombstones: after each delete a record with its key and a null value."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_publisher.encode.encoded_events import EncodedRows


def with_tombstones(
    encoded: EncodedRows, partitions: Sequence[int]
) -> tuple[list[bytes | None], list[bytes | None], list[int]]:
    """Add a null value with the same key after every delete."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    targets: list[int] = []
    done = 0
    for index in encoded.deletes:
        keys += encoded.keys[done : index + 1]
        values += encoded.values[done : index + 1]
        targets += partitions[done : index + 1]
        keys.append(encoded.keys[index])
        values.append(None)
        targets.append(partitions[index])
        done = index + 1
    keys += encoded.keys[done:]
    values += encoded.values[done:]
    targets += partitions[done:]
    return keys, values, targets
