"""What the modes of snapshots ask for beyond the first reading of a table."""

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
        mode: as configured.
        tables: what is published.
        committer: commits what a start decides.
        once: what this process has done already, from one life to the next.
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

    def begin(self) -> None:
        """Begin the new snapshots of a start of the process; to be called at a closed position.

        They are in the checkpoint behind it: a retry resumes them, and begins none anew.

        Raises:
            TableFailed: a table's topic is refused.
            PublisherError: a part did not answer or refused.
        """
        if self._mode is not SnapshotMode.ALWAYS or _ANEW in self._once:
            return
        for table in list(self._tables):
            if self._committer.state.of(table.name).state in WHOLE:
                self._tables.begin_again(table)
        self._committer.commit()
        self._once.add(_ANEW)

    def is_over(self) -> bool:
        """Whether snapshots are all that was asked for, and every table's is out.

        A shard to which no table belongs has none to wait for.

        Raises:
            SnapshotsIncomplete: tables were stopped, the others are out.
        """
        if self._mode is not SnapshotMode.INITIAL_ONLY:
            return False
        state = self._committer.state
        states = {table.name: state.of(table.name).state for table in self._tables}
        given_up = {TableState.STOPPED, TableState.HALTED}
        if not states:
            return self._tables.are_all_elsewhere
        if not {TableState.FOLLOWED, *given_up}.issuperset(states.values()):
            return False
        stopped = [name for name, found in states.items() if found in given_up]
        if stopped:
            raise SnapshotsIncomplete(sorted(stopped, key=str))
        _log.info("snapshots_over", tables=len(states), mode=self._mode.value)
        return True
