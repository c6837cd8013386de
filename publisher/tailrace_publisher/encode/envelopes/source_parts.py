"""What stands behind the row images: ``source``, ``op``, ``ts_ms``, ``transaction``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final

from tailrace_publisher.encode.columns.varint import (
    DIGITS,
    FINAL,
    NULL,
    PRESENT,
    encode_long,
    encode_string,
    encode_strings,
)
from tailrace_publisher.encode.event_kinds import HAS_AFTER, OP, Kind
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.envelope import CONNECTOR, VERSION, TableSchema
from tailrace_schemas.position.change_position import Operation
from tailrace_schemas.position.lsn import Lsn, lsn_text

SUFFIXES_BYTES_MAX: Final = 262_144
"""What is remembered of one version at most: there may be thousands of them, and a suffix may name
a thousand columns."""
_ENTRY_BYTES: Final = 256
"""An entry beside the suffix and its names."""
_LSN_LENGTH: Final = encode_long(len(str(Lsn.ZERO)))
BEFORE_COMMIT_LSN: Final = PRESENT + _LSN_LENGTH
"""What stands between the texts of change_lsn and commit_lsn."""

SuffixKey = tuple[int, bytes | None, tuple[str, ...]]
"""(kind, update mask, names of unavailable columns)."""


class Suffixes(dict[SuffixKey, bytes]):
    """Source from operation on, and op: built once per combination."""

    def __init__(self, schema: TableSchema, mask: UpdateMask) -> None:
        super().__init__()
        self._instance = encode_string(schema.capture_instance)
        self._schema_lsn = encode_string(str(schema.schema_lsn))
        self._mask = mask
        self._held = 0

    def __missing__(self, key: SuffixKey) -> bytes:
        number, mask, unavailable = key
        kind = Kind(number)
        is_update = kind.operation in {Operation.UPDATE_BEFORE, Operation.UPDATE_AFTER}
        names = encode_strings(unavailable)
        suffix = b"".join(
            (
                PRESENT,
                encode_long(kind.operation),
                self._instance,
                self._schema_lsn,
                encode_strings(self._mask.changed(mask) if is_update else ()),
                names,
                encode_string(OP[kind]),
            )
        )
        size = _ENTRY_BYTES + len(suffix) + len(mask or b"") + len(names)
        if self._held + size > SUFFIXES_BYTES_MAX:
            self.clear()
            self._held = 0
        if size <= SUFFIXES_BYTES_MAX:
            self[key] = suffix
            self._held += size
        return suffix


def _serial_of(kind: Kind) -> bytes:
    # Debezium counts the events of one change LSN. The count that needs no state: a delete is the
    # first, whatever carries an after image the second, so a key change keeps its order.
    return NULL if kind is Kind.READ else PRESENT + encode_long(1 + (kind in HAS_AFTER))


SERIALS: Final[dict[int, bytes]] = {kind: _serial_of(kind) + PRESENT for kind in Kind}
"""``event_serial_no``, and the branch of ``command_id``."""


def serials(kinds: Sequence[int]) -> Iterable[bytes]:
    """``event_serial_no`` of events of these kinds, and what comes before their command id."""
    distinct = set(kinds)
    if len(distinct) == 1:
        return repeat(SERIALS[distinct.pop()])
    return map(SERIALS.__getitem__, kinds)


def command_ids(commands: Sequence[int]) -> list[bytes]:
    """``command_id`` of events: in a large transaction each has another one."""
    return [
        FINAL[number << 1] if 0 <= number < DIGITS >> 1 else encode_long(number, 32)
        for number in commands
    ]


class SourceParts:
    """Builds the parts that are constant per capture instance, transaction or page.

    Args:
        server_name: logical name of the server.
        schema: the version.

    Attributes:
        mask: reads update masks.
        suffixes: see there.
        before_commit_ms: source up to its commit time.
        before_seqval: source between its commit time and the text of change_lsn.
    """

    def __init__(self, server_name: str, schema: TableSchema) -> None:
        table = schema.table
        self.mask = UpdateMask(schema)
        self.suffixes = Suffixes(schema, self.mask)
        self._source = b"".join(map(encode_string, (VERSION, CONNECTOR, server_name)))
        self._table = b"".join(map(encode_string, (table.database, table.schema, table.table)))
        self.before_commit_ms = self._source
        self.before_seqval = b"".join((NULL, self._table, PRESENT, _LSN_LENGTH))

    def commits(self, commit_ms: Mapping[bytes, int]) -> tuple[dict[bytes, bytes], ...]:
        """What is before the text of change_lsn, and behind it, for each transaction.

        Args:
            commit_ms: commit time in milliseconds UTC by commit LSN.
        """
        heads = {
            commit: b"".join((self.before_commit_ms, encode_long(ms), self.before_seqval))
            for commit, ms in commit_ms.items()
        }
        middles = {commit: BEFORE_COMMIT_LSN + lsn_text(commit).encode() for commit in commit_ms}
        return heads, middles

    def snapshot(self, fence: Lsn, read_ms: int, state: str) -> bytes:
        """Everything behind the after image of a snapshot row.

        The position is written out (zero change LSN, command id and operation), so that a reader
        builds it as from any other event.
        """
        return b"".join(
            (
                self._source,
                encode_long(read_ms),
                PRESENT,
                encode_string(state),
                self._table,
                PRESENT,
                encode_string(str(Lsn.ZERO)),
                PRESENT,
                encode_string(str(fence)),
                SERIALS[Kind.READ],
                encode_long(0),
                self.suffixes[Kind.READ, None, ()],
                envelope_end(read_ms),
            )
        )


def envelope_end(processed_ms: int | None) -> bytes:
    """``ts_ms``, and no transaction: one byte, where ``transaction_numbers`` puts it in later."""
    stamp = NULL if processed_ms is None else PRESENT + encode_long(processed_ms)
    return stamp + NULL
