"""Dead letters: events that could not be published, in ``<prefix>.dead_letters``.

A record's headers say which change it was and why it is not in its topic. Its value is the row as
JSON text: what does not fit an Avro schema must not need one. It is written in the Kafka
transaction that the event would have been in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import TransformKind
from tailrace_schemas.position.change_position import ChangePosition

ROW_CHARACTERS: Final = 100_000
"""Characters of all values of a letter, about: it must itself fit where the event did not."""
_LEAST_CHARACTERS: Final = 16
_OPERATIONS: Final = {0: "r", 1: "d", 2: "c", 3: "d", 4: "u"}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that is not in its topic.

    Attributes:
        topic: where it would have been.
        position: of the change; of a snapshot row, of its fence.
        error: class of what was wrong.
        reason: in words, without any value.
        column: name of the column whose value it was; empty where it was none.
        row: the row images, see :func:`row_of`; None where the event is too large.
        key: framed Avro key; None where it is not known.
    """

    table: str
    topic: str
    position: ChangePosition
    error: str
    reason: str
    column: str = ""
    row: Mapping[str, Any] | None = None
    key: bytes | None = None

    def at(self, position: ChangePosition) -> DeadLetter:
        """The same at another position: a snapshot row's is known when its fence is passed."""
        return replace(self, position=position)

    def headers(self) -> list[tuple[str, bytes]]:
        """What the record's headers say, all as text."""
        position = self.position
        said = {
            "table": self.table,
            "topic": self.topic,
            "op": _OPERATIONS[int(position.operation)],
            "commit_lsn": str(position.commit_lsn),
            "command_id": str(position.command_id),
            "seqval": str(position.seqval),
            "operation": str(int(position.operation)),
            "error": self.error,
            "reason": self.reason,
            "column": self.column,
        }
        return [(name, text.encode()) for name, text in said.items()]

    def value(self) -> bytes | None:
        """The row as JSON; half surrogate pairs are escaped, so it is valid UTF-8 always."""
        return None if self.row is None else json.dumps(self.row).encode("ascii")


def row_of(
    columns: Sequence[SchemaColumn],
    before: Sequence[Any] | None,
    after: Sequence[Any] | None,
) -> dict[str, Any]:
    """The images of a row in JSON.

    Args:
        before: values before the change; None where there are none.
        after: values after it; the same.

    Returns:
        ``before`` and ``after``, each value as text or NULL; ``cut``, names of columns of which
        only the beginning is there; ``left_out``, names of hashed columns: what is read of them is
        not published.
    """
    images = sum(image is not None for image in (before, after))
    most = max(_LEAST_CHARACTERS, ROW_CHARACTERS // max(1, images * len(columns)))
    cut: dict[str, None] = {}
    hidden = {
        column.name
        for column in columns
        if column.transform is not None and column.transform.kind is TransformKind.HASH
    }

    def image_of(values: Sequence[Any] | None) -> dict[str, str | None] | None:
        if values is None:
            return None
        image: dict[str, str | None] = {}
        for column, value in zip(columns, values, strict=False):
            if column.name in hidden:
                continue
            text = text_of(value)
            if text is not None and len(text) > most:
                text = text[:most]
                cut[column.name] = None
            image[column.name] = text
        return image

    found: dict[str, Any] = {"before": image_of(before), "after": image_of(after)}
    return {**found, "cut": list(cut), "left_out": sorted(hidden)}


def text_of(value: Any) -> str | None:
    """A value as text: bytes in hexadecimal, moments as ISO 8601, everything else as it prints."""
    match value:
        case None:
            return None
        case bytes() | bytearray():
            return "0x" + bytes(value).hex()
        case _ if hasattr(value, "isoformat"):
            return str(value.isoformat())
        case _:
            return str(value)
