"""In which order the changes of a transaction are read, and where that may change (ADR 0031)."""

from __future__ import annotations

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.source import ReadMode
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint


def take_read_mode(
    state: PublisherState, stored: DatabaseCheckpoint | None, mode: ReadMode
) -> None:
    """Go on in the order that the configuration says.

    Change tables are ordered by command id within a transaction, the rows of query functions have
    none. So what is behind a position inside a transaction is not the same in both.

    Args:
        state: with the position.
        stored: the database's checkpoint; None at a first start.
        mode: as configured.

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
            f" ({state.position}) that was read with {was.value}, in another order of its changes:"
            f" start once with source.read_mode: {was.value}, until it is out (tailrace status),"
            " then change it"
        ]
    )
