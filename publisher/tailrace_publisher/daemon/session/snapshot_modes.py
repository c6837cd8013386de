"""What the snapshot modes require beyond the first snapshot of a table."""

from __future__ import annotations

import structlog

from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.tables.table_state import WHOLE, TableState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.errors import SnapshotsIncomplete
from tailrace_publisher.options.snapshots import SnapshotMode

_log = structlog.get_logger(__name__)

_ANEW = "new snapshots of a start"


class SnapshotModes:
    """The modes ``always`` and ``initial_only``.

    Args:
        once: what this process has already done, across sessions.
    """

    def __init__(
        self,
        mode: SnapshotMode,
        tables: PublishedTables,
        committer: Committer,
        once: set[str],
    ) -> None:
        self._mode = mode
        self._tables = tables
        self._committer = committer
        self._once = once

    def start_snapshots(self) -> None:
        """Start the new snapshots of a process start; call this at a closed position.

        Afterwards the checkpoint holds them: a retry resumes them and starts none from scratch.

        Raises:
            TableFailed: Kafka refuses a table's topic.
            PublisherError: a system did not answer, or refused.
        """
        if self._mode is not SnapshotMode.ALWAYS or _ANEW in self._once:
            return
        for table in list(self._tables):
            if self._committer.state.of(table.name).state not in WHOLE:
                continue
            refusal = self._tables.rows_refusal(table)
            if refusal is None:
                self._tables.resnapshot(table)
            else:
                _log.error(
                    "snapshot_refused",
                    table=str(table.name),
                    reason=refusal,
                    effect="its changes continue",
                )
        self._committer.commit()
        self._once.add(_ANEW)

    def is_over(self) -> bool:
        """Return whether only snapshots were wanted and all are published.

        Raises:
            SnapshotsIncomplete: tables were stopped; the others are published.
        """
        if self._mode is not SnapshotMode.INITIAL_ONLY:
            return False
        state = self._committer.state
        states = {table.name: state.of(table.name).state for table in self._tables}
        given_up = {TableState.STOPPED, TableState.HALTED}
        if not states or not {TableState.FOLLOWED, *given_up}.issuperset(states.values()):
            return False
        stopped = [name for name, found in states.items() if found in given_up]
        if stopped:
            raise SnapshotsIncomplete(sorted(stopped, key=str))
        _log.info("snapshots_finished", tables=len(states), mode=self._mode.value)
        return True
