"""Parts of an event: runs of its bytes, each with the facts on which they depend.

``event_forms`` says from which facts the value of each field comes. This module turns that into
parts, in the order and with the Avro types of the schema. A writer groups neighbouring parts that
change together and compiles each group into one kernel: ``row_writer`` for pages of rows,
``blocks.block_writer`` for blocks. ``Part.write`` serves whatever few events do not share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from itertools import groupby
from typing import Any, Final, NamedTuple

from tailrace_publisher.encode.columns.varint import (
    NULL,
    PRESENT,
    encode_long,
    encode_string,
    encode_strings,
)
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_schemas.position.change_position import POSITION_BYTES, ChangePosition
from tailrace_schemas.position.lsn import Lsn


class Fact(Flag):
    """What the bytes of a part may depend on."""

    NOTHING = 0
    KIND = auto()
    MASK = auto()
    UNAVAILABLE = auto()
    PAGE = auto()
    """The time of processing, and the place in a snapshot."""
    COMMIT_MS = auto()
    COMMIT_LSN = auto()
    CHANGE_LSN = auto()
    POSITION = auto()
    COMMAND_ID = auto()
    BEFORE = auto()
    """The image before the change, of kinds that have one."""
    AFTER = auto()
    """The image after the change, of kinds that have one."""
    ROW = auto()
    """The one image of a flat event: before a delete, after any other change."""


IMAGES: Final = Fact.BEFORE | Fact.AFTER | Fact.ROW


class Facts(NamedTuple):
    """The facts of one event, without its row images.

    Attributes:
        unavailable: names of the large columns whose value the row does not hold.
        position: 25 bytes of ``pack_position``.
        processed_ms: None if the publisher does not say.
        snapshot: ``source.snapshot``; None for a change.
    """

    kind: int = Kind.READ
    mask: bytes | None = None
    unavailable: tuple[str, ...] = ()
    position: bytes = b""
    commit_ms: int = 0
    processed_ms: int | None = None
    snapshot: str | None = None

    @property
    def place(self) -> ChangePosition:
        """The unpacked position."""
        return ChangePosition.from_bytes(self.position)


@dataclass(frozen=True, slots=True)
class Origin:
    """The facts from which the value of a field comes, and how."""

    needs: Fact
    value: Callable[[Facts], Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of an event, and the facts on which they depend.

    Attributes:
        write: makes the bytes; none for an image.
    """

    needs: Fact
    write: Callable[[Facts], bytes]


COMMIT_LSN: Final = Origin(Fact.COMMIT_LSN, lambda facts: str(facts.place.commit_lsn))
CHANGE_LSN: Final = Origin(Fact.CHANGE_LSN, lambda facts: str(facts.place.seqval))
POSITION: Final = Origin(Fact.POSITION, lambda facts: facts.position.hex())
COMMIT_MS: Final = Origin(Fact.COMMIT_MS, lambda facts: facts.commit_ms)
COMMAND_ID: Final = Origin(Fact.COMMAND_ID, lambda facts: facts.place.command_id)
PROCESSED_MS: Final = Origin(Fact.PAGE, lambda facts: facts.processed_ms)
SNAPSHOT: Final = Origin(Fact.PAGE, lambda facts: facts.snapshot)
UNAVAILABLE: Final = Origin(Fact.UNAVAILABLE, lambda facts: facts.unavailable)

DIGITS: Final = {
    Fact.COMMIT_LSN: len(str(Lsn.ZERO)),
    Fact.CHANGE_LSN: len(str(Lsn.ZERO)),
    Fact.POSITION: 2 * POSITION_BYTES,
}
"""Lengths of the texts that are as long in every event."""
_NUMBERS: Final = Fact.COMMIT_MS | Fact.COMMAND_ID


def constant(value: Any) -> Origin:
    """The origin of a value that is the same in all events of a schema version."""
    return Origin(Fact.NOTHING, lambda _: value)


def of_kind(value: Callable[[Kind], Any]) -> Origin:
    """The origin of a value that the kind of event determines."""
    return Origin(Fact.KIND, lambda facts: value(Kind(facts.kind)))


Origins = Mapping[str, "Origin | Origins"]
"""Origins of the fields of a record; of a field that is a record, those of its fields."""


def parts_of(fields: Iterable[Mapping[str, Any]], origins: Origins) -> list[Part]:
    """Make the parts of a record, in the order of its schema.

    Args:
        fields: of the Avro schema.
        origins: of exactly these fields.

    Raises:
        KeyError: a field has no origin.
    """
    parts: list[Part] = []
    for field in fields:
        declared, origin = field["type"], origins[field["name"]]
        if isinstance(origin, Origin):
            parts += _parts_of_field(declared, origin)
        else:
            parts += parts_of(declared["fields"], origin)
    return parts


def bytes_part(raw: bytes) -> Part:
    """The part that is the same in all events of a schema version."""
    return Part(Fact.NOTHING, lambda _: raw)


def image_part(image: Fact) -> Part:
    """The part in whose place a row image goes."""
    return Part(image, lambda _: b"")


def grouped(parts: Sequence[Part], together: Sequence[Fact]) -> list[list[Part]]:
    """Group neighbours that one kernel writes.

    Args:
        together: sets of facts; a part joins the group before it if one set has the facts of both.

    Returns:
        The groups in order; constants that are neighbours in a group are one part.
    """
    groups: list[list[Part]] = []
    needs = Fact.NOTHING
    for part in parts:
        needs |= part.needs
        if groups and any(needs in facts for facts in together):
            groups[-1].append(part)
        else:
            groups.append([part])
            needs = part.needs
    return list(map(_with_joined_constants, groups))


def needs_of(parts: Iterable[Part]) -> Fact:
    """All facts on which parts depend."""
    needs = Fact.NOTHING
    for part in parts:
        needs |= part.needs
    return needs


def written(parts: Iterable[Part], facts: Facts) -> bytes:
    """Write parts of one event, one after the other."""
    return b"".join([part.write(facts) for part in parts])


def _with_joined_constants(parts: Sequence[Part]) -> list[Part]:
    joined: list[Part] = []
    for is_constant, neighbours in groupby(parts, lambda part: not part.needs):
        found = list(neighbours)
        joined += [bytes_part(written(found, Facts()))] if is_constant else found
    return joined


def _parts_of_field(declared: Any, origin: Origin) -> list[Part]:
    # A text of one length and a number that is always there: what precedes them is constant.
    value = origin.value
    if origin.needs in DIGITS:
        length = encode_long(DIGITS[origin.needs])
        digits = Part(origin.needs, lambda facts: value(facts).encode())
        return [bytes_part(_branch(declared) + length), digits]
    if origin.needs and origin.needs in _NUMBERS:
        number = Part(origin.needs, lambda facts: encode_long(value(facts)))
        return [bytes_part(_branch(declared)), number]
    if origin.needs == Fact.KIND:
        by_kind: dict[int, bytes] = {kind: _avro(declared, value(Facts(kind))) for kind in Kind}
        return [Part(Fact.KIND, lambda facts: by_kind[facts.kind])]
    return [Part(origin.needs, lambda facts: _avro(declared, value(facts)))]


def _branch(declared: Any) -> bytes:
    """What precedes a value that is not null."""
    return PRESENT if isinstance(declared, list) else b""


def _avro(declared: Any, value: Any) -> bytes:
    if isinstance(declared, list):  # ["null", type]
        return NULL if value is None else PRESENT + _avro(declared[1], value)
    return _WRITERS[declared if isinstance(declared, str) else declared["type"]](value)


_WRITERS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "string": encode_string,
    "long": encode_long,
    "int": encode_long,
    "array": encode_strings,
}
