"""Publication of a cut: one commit of the catalog moves the main branch of all its tables.

The changes of a batch are staged on a branch of each table, which readers do not see.
Publication moves each main branch to the staged snapshot. The catalog compares each main branch
with the one that the batch was staged on, and does all or nothing.

- A commit of somebody else to one of the tables refuses the whole publication.
- A sink takes each table before it reads it: an empty snapshot with its epoch on the main branch.
  So a sink that was replaced cannot publish: the main branch is not where it staged its batch.
- A publication whose answer was lost is recognized: its snapshots are on the main branches.
  The same is looked up after every answer, so a catalog that answers wrongly loses nothing.
- A batch that was not published leaves its branches ahead. Taking the tables sets them back.

Schemas belong to a table, not to a branch. So a table is altered before its batch is staged:
``ALTER``, stage, publish. Iceberg reads values by field id, so a staged snapshot has the names and
types that the table has when it is read. Until the publication a reader sees a new column without
values. A reader of a version sees the columns of that version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import structlog

from tailrace_sink.errors import (
    ApplyFailed,
    CatalogUnavailable,
    CatalogUnsafe,
    ForeignCommit,
    LakeTableChanged,
    LakeTaken,
)
from tailrace_sink.iceberg.catalog import Committed, IcebergCatalog, Outcome
from tailrace_sink.iceberg.loaded_table import Change, LoadedTable, Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN, TableId
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits

_ATTEMPTS_MAX: Final = 20
"""Of taking a table, while somebody else commits to it."""

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Publisher:
    """Moves the tables of one lake, for one sink.

    Attributes:
        log: id of the log's table, to which epochs and batches belong.
        check: raises ``LakeTaken`` if the log has a newer sink.
        commits: whether one commit publishes all tables, or one each.
    """

    catalog: IcebergCatalog
    log: str
    epoch: int
    check: Callable[[], None]
    commits: Commits = Commits.ALL_TABLES

    def take(self, name: TableId) -> None:
        """Take a table from another sink, before it is read, and set its branch back.

        Without such a table nothing happens. A table of this sink only has its branch set back.

        Raises:
            LakeTaken: a newer sink has the table.
            CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed.
        """
        for _ in range(_ATTEMPTS_MAX):
            self.check()
            table = self.catalog.load(name)
            if table is None:
                return
            newest = self._newest(table)
            if newest is not None and newest.epoch == self.epoch:
                change = _set_back(table)
                if change is None:
                    return
            else:
                change = table.with_empty_snapshot(Stamp(self.log, self.epoch), BRANCH)
            done = self.catalog.commit_one(change)
            if done.outcome is Outcome.DONE:
                return
            if done.outcome is not Outcome.REFUSED:
                raise self._failed(f"taking table {name}", done)
        raise ApplyFailed(f"taking table {name}", f"others committed {_ATTEMPTS_MAX} times")

    def publish(self, staged: Mapping[TableId, int], stamp: Stamp) -> None:
        """Publish the staged snapshots of a batch; again if the answer was lost.

        Args:
            staged: by table, in order: without atomic commits the last becomes visible last.
            stamp: with which they were staged.

        Raises:
            LakeTaken: another sink has one of the tables; none was published.
            ForeignCommit: somebody else committed to one; none was published. Set back and stage
                again.
            LakeTableChanged: somebody dropped a column that a snapshot has values for.
            CatalogUnsafe: the catalog published some tables of one commit.
            CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed. It may still
                publish what it was asked for, which the next attempt recognizes.
        """
        moves = self._moves(staged, stamp)
        if not moves:
            return
        done = self._commit(moves)
        # Raises the reason of a refusal. None left: all is published. A catalog that commits table
        # after table may say that all is done, although a commit of somebody else was in the way.
        left = self._moves(staged, stamp)
        if done.outcome is Outcome.DONE:
            if left:
                tables = ", ".join(str(move.table) for move in left)
                raise CatalogUnsafe(
                    self.catalog.name, f"it said that a commit is done, and did not move {tables}"
                )
            _log.info("cut_published", batch=stamp.batch, lsn=stamp.lsn, tables=len(moves))
            return
        if left:
            raise self._failed(f"publishing batch {stamp.batch}", done)
        _log.warning("publication_recognized", batch=stamp.batch, lost=done.reason)

    def _moves(self, staged: Mapping[TableId, int], stamp: Stamp) -> list[Change]:
        """Return what is left to publish, after checking that nobody else is in the way."""
        moves, published = self._look(staged, stamp)
        if moves and published and self.commits is Commits.ALL_TABLES:
            # An earlier request may have arrived while the tables were read, one after the other.
            moves, published = self._look(staged, stamp)
            if moves and published:
                left = ", ".join(str(move.table) for move in moves)
                raise CatalogUnsafe(
                    self.catalog.name,
                    f"of one commit it published {', '.join(map(str, published))} and not {left}",
                )
        return moves

    def _look(
        self, staged: Mapping[TableId, int], stamp: Stamp
    ) -> tuple[list[Change], list[TableId]]:
        """Return the moves to publish, and the tables that are published already."""
        tables = self._load(staged)
        moves, published = [], []
        for name, snapshot in staged.items():
            table, head = tables[name], tables[name].head(MAIN)
            if head == snapshot:
                found = table.snapshot(snapshot)
                # Without its stamp the batch changed nothing here, which says nothing of others.
                published += [name] if found is not None and found.stamp == stamp else []
            elif _stands_on_main(table, snapshot, stamp):
                self._require_columns(table, snapshot)
                moves.append(table.with_heads({MAIN: snapshot}))
            elif any(found.id == snapshot for found in table.history(head)):
                published.append(name)
            else:
                self._refuse(table, snapshot, stamp)
        return moves, published

    def _refuse(self, table: LoadedTable, snapshot: int, stamp: Stamp) -> NoReturn:
        """Raise why a staged snapshot does not stand on the main branch."""
        head, name = table.head(MAIN), str(table.name)
        staged = {found.id for found in table.history(snapshot)}
        between = _until(table, head, staged)
        ours = [s.stamp for s in between if s.stamp is not None and s.stamp.log == self.log]
        self._require_newest(table, ours)
        if any(found.epoch == self.epoch and found.batch == stamp.batch for found in ours):
            raise ApplyFailed(
                f"publishing batch {stamp.batch}",
                f"an earlier attempt, whose answer was lost, has published table {name}",
            )
        foreign = next((s for s in between if s.stamp is None or s.stamp.log != self.log), None)
        if foreign is not None:
            raise ForeignCommit(name, MAIN, foreign.id, foreign.operation)
        if ours:
            self.check()
            raise LakeTaken(name, stamp.batch or 0, ours[0].batch or 0)
        stray = next((s for s in table.history(snapshot) if s.stamp != stamp), None)
        if stray is None or stray.stamp is None or stray.stamp.batch != stamp.batch:
            raise ForeignCommit(name, MAIN, head or 0, "rolled back")
        raise ForeignCommit(name, BRANCH, stray.id, stray.operation)

    def _require_columns(self, table: LoadedTable, snapshot: int) -> None:
        found = table.snapshot(snapshot)
        lost = [] if found is None else table.lost_columns(found.schema_id)
        if lost:
            raise LakeTableChanged(
                str(table.name), ", ".join(lost), "it was dropped while a batch was staged"
            )

    def _newest(self, table: LoadedTable) -> Stamp | None:
        """Return the newest stamp of this log on the main branch."""
        stamps = (found.stamp for found in table.history(table.head(MAIN)))
        newest = next((s for s in stamps if s is not None and s.log == self.log), None)
        self._require_newest(table, [] if newest is None else [newest])
        return newest

    def _require_newest(self, table: LoadedTable, found: Sequence[Stamp]) -> None:
        newer = next((stamp for stamp in found if stamp.epoch > self.epoch), None)
        if newer is not None:
            self.check()
            raise LakeTaken(str(table.name), 0, newer.batch or 0)

    def _load(self, names: Mapping[TableId, int]) -> dict[TableId, LoadedTable]:
        found = {}
        for name in names:
            table = self.catalog.load(name)
            if table is None:
                raise LakeTableChanged(str(name), "", "it was dropped while a batch was staged")
            found[name] = table
        return found

    def _commit(self, moves: Sequence[Change]) -> Committed:
        if self.commits is Commits.ALL_TABLES:
            return self.catalog.commit(moves)
        for move in moves:
            done = self.catalog.commit_one(move)
            if done.outcome is not Outcome.DONE:
                return done
        return Committed(Outcome.DONE)

    def _failed(self, step: str, done: Committed) -> ApplyFailed | CatalogUnavailable:
        if done.outcome is Outcome.UNKNOWN:
            return CatalogUnavailable(self.catalog.name, step, done.reason)
        return ApplyFailed(step, done.reason)


def _stands_on_main(table: LoadedTable, snapshot: int, stamp: Stamp) -> bool:
    """Whether a staged snapshot is of this batch alone, on top of the main branch."""
    head = table.head(MAIN)
    for found in table.history(snapshot):
        if found.id == head:
            return True
        if found.stamp != stamp:
            return False
    return False


def _set_back(table: LoadedTable) -> Change | None:
    """Return the change that sets the branch back to the main one; None if it is there."""
    head = table.head(MAIN)
    if head is None or table.head(BRANCH) == head:
        return None
    return table.with_heads({BRANCH: head})


def _until(table: LoadedTable, head: int | None, known: set[int]) -> list[Snapshot]:
    """Return the snapshots of a branch after those that are known, newest first."""
    found: list[Snapshot] = []
    for snapshot in table.history(head):
        if snapshot.id in known:
            break
        found.append(snapshot)
    return found
