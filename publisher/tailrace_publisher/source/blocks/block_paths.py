"""Which capture instances and tables can be read in blocks, and the readers of those."""

from __future__ import annotations

from collections.abc import Sequence, Set

import structlog

from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.blocks.images import ImageEncoder
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.blocks.block_memory import ROWS_MIN, rows_of
from tailrace_publisher.source.blocks.block_reader import BlockReader, TableReader
from tailrace_publisher.source.blocks.block_session import BlockSession
from tailrace_publisher.source.blocks.table_blocks import TableBlocks
from tailrace_publisher.source.pages.page_readers import Stamps
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_schemas.events.envelope import TableSchema

_log = structlog.get_logger(__name__)


class BlockPaths(BlockSession):
    """The versions that can be read in blocks, over one connection."""

    def __init__(self, config: SourceConfig) -> None:
        super().__init__(config)
        self._encoders: dict[str, tuple[TableSchema, BlockEncoder | None]] = {}

    def reader(
        self, reference: EnvelopeEncoder, limit: PageLimit, row_size: RowSize, stamps: Stamps
    ) -> BlockReader | None:
        """Return the reader of a version's pages in a window; None if the reference reads them."""
        if self.faults.has(reference.schema.capture_instance):
            return None
        encoder = self._encoder(reference)
        return None if encoder is None else BlockReader(self, encoder, limit, row_size, stamps)

    def table_reader(
        self, reference: EnvelopeEncoder, identity: Sequence[str], texts: int, row_size: RowSize
    ) -> TableReader | None:
        """See :class:`BlockReading`."""
        schema = reference.schema
        if self.faults.has(schema.capture_instance):
            return None

        def encoder_of(not_ascii: Set[str]) -> ImageEncoder:
            hashes = reference.treatment.hashes
            return ImageEncoder(schema, reference.key_schema_id, identity, hashes, not_ascii)

        try:
            blocks = TableBlocks(self.connection, encoder_of, texts, row_size)
        except Declined as error:
            _log.debug("table_not_in_blocks", instance=schema.capture_instance, reason=str(error))
            return None
        return TableReader(self, blocks, schema.capture_instance)

    def _encoder(self, reference: EnvelopeEncoder) -> BlockEncoder | None:
        """The encoder of a version; decided once for each, and when its texts are known better."""
        instance = reference.schema.capture_instance
        known = self._encoders.get(instance)
        encoder: BlockEncoder | None = None
        if known is not None and known[0] is reference.schema:
            encoder = None if known[1] is None else known[1].relearned()
            if encoder is known[1]:
                return encoder
        try:
            encoder = encoder or BlockEncoder(
                reference.server_name,
                reference.schema,
                reference.topic,
                reference.schema_id,
                reference.key_schema_id,
                reference.treatment,
            )
            if rows_of(encoder.cells) < ROWS_MIN:
                raise Declined("too few rows to a block")  # noqa: TRY301 - one place to say it
        except Declined as error:
            encoder = None
            _log.debug("table_not_in_blocks", instance=instance, reason=str(error))
        self._encoders[instance] = (reference.schema, encoder)
        return encoder
