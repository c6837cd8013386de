"""Rows in blocks, whose columns a separate thread encodes while the next block is fetched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from tailrace_publisher.encode.blocks.envelopes import EncodedBlock, Header
from tailrace_publisher.encode.blocks.images import Images
from tailrace_publisher.source.blocks.block_memory import PLACES
from tailrace_schemas.position.change_position import unpack_position

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class FetchedBlock:
    """A block whose columns are being encoded.

    Attributes:
        images: of all its rows, including those after the header's.
    """

    header: Header
    images: Future[Images]

    def __len__(self) -> int:
        return len(self.header)

    @property
    def size(self) -> int:
        """Bytes of its images; waits for them."""
        return int(self.images.result().rows.nbytes)

    def first(self, rows: int) -> FetchedBlock:
        """Return its first rows, so many."""
        return FetchedBlock(self.header.first(rows), self.images)

    def encoded(self) -> EncodedBlock:
        """Return the block; wait for its columns.

        Raises:
            Declined: only the reference can handle it.
        """
        images = self.images.result()
        return EncodedBlock(self.header, images.rows, images.keys).first(len(self))


@dataclass(frozen=True, slots=True)
class BlockRows(Sequence[tuple[bytes, int, bytes, int]]):
    """Rows in blocks; as a sequence, the position's four fields of each.

    Attributes:
        blocks: consecutive blocks, none empty.
    """

    blocks: list[FetchedBlock] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __getitem__(self, row: int) -> tuple[bytes, int, bytes, int]:  # type: ignore[override]
        """Return the first or the last row."""
        block = self.blocks[0] if row == 0 else self.blocks[-1]
        return unpack_position(block.header.position(row))

    def without_last(self) -> BlockRows:
        """Return all but the last row."""
        *blocks, last = self.blocks
        return BlockRows([*blocks, last.first(len(last) - 1)] if len(last) > 1 else blocks)


class EncodingThread:
    """Encodes what one connection fetches, in order.

    The kernels' loops and the driver release the interpreter's lock, so fetching and encoding use a
    core each. A block's memory must not be written to while the block is being encoded. So
    :meth:`wait_for_place` must be called before a block is fetched.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "encode-blocks")
        self._held: deque[Future[Images]] = deque()

    def submit(self, encode: Callable[[], _Made]) -> Future[_Made]:
        """Queue an encoding after the earlier ones."""
        return self._executor.submit(encode)

    def submit_block(self, encode: Callable[[], Images]) -> Future[Images]:
        """Queue the encoding of a block's memory."""
        coming = self.submit(encode)
        self._held.append(coming)
        return coming

    def wait_for_place(self) -> None:
        """Wait until the next block may be fetched."""
        while len(self._held) >= PLACES:
            wait([self._held.popleft()])

    def close(self) -> None:
        """End the thread; what waits for it is not encoded."""
        self._executor.shutdown(wait=True, cancel_futures=True)
