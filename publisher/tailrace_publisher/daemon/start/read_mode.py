"""The order in which a transaction's changes are read, and when it may change (ADR 0031)."""

from __future__ import annotations

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.source import ReadMode
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint


def apply_read_mode(
    state: PublisherState, stored: DatabaseCheckpoint | None, mode: ReadMode
) -> None:
    """Continue in the configured order.

    Within a transaction, command ids order the change tables. The rows of query functions have
    none. So the changes after a position inside a transaction differ between the two modes.

    Args:
        stored: the database's checkpoint; None at a first start.

    Raises:
        ConfigError: the position is inside a transaction that was read in the other mode.
    """
    state.by_function = mode is ReadMode.FUNCTION
    if stored is None or stored.by_function == state.by_function or is_closed(state.position):
        return
    was = ReadMode.FUNCTION if stored.by_function else ReadMode.DIRECT
    raise ConfigError(
        [
            f"source.read_mode = {mode.value}: the checkpoint is inside a transaction"
            f" ({state.position}) that was read with {was.value}, in another order of its changes."
            f" Fix: start once with source.read_mode: {was.value}, wait until the transaction is"
            " published (tailrace status), then change the mode"
        ]
    )
