"""Publication of a cut: one commit of the catalog moves the main branch of all its tables.

The changes of a batch are staged on a branch of each table, which readers do not see.
Publication moves each main branch to the staged snapshot. The catalog compares each main branch
with the one that the batch was staged on, and does all or nothing.

- A commit of somebody else to one of the tables refuses the whole publication. If it changed no
  row, the staged snapshots follow it (``rebase``), and publication is tried again. Otherwise the
  caller leaves that table out.
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
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from py4j.protocol import Py4JError

from tailrace_sink.errors import (
    ApplyFailed,
    CatalogUnavailable,
    CatalogUnsafe,
    ForeignCommit,
    LakeTaken,
)
from tailrace_sink.iceberg.branches import (
    MEANWHILE,
    ids_of,
    is_in_main,
    is_stray,
    require_columns,
    set_back,
    staged_part,
    stands_on_main,
    until,
)
from tailrace_sink.iceberg.catalog import Committed, IcebergCatalog, Outcome, is_conflict
from tailrace_sink.iceberg.foreign_snapshots import foreign_change
from tailrace_sink.iceberg.loaded_table import Change, LoadedTable, Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN, TableId
from tailrace_sink.iceberg.rebase import rebased
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits
from tailrace_sink.ports.writes import Published, RowsChanged

_ATTEMPTS_MAX: Final = 20
"""Of taking a table, while somebody else commits to it."""

Spares = Callable[[TableId, Snapshot], bool]

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class _Lag:
    """A table whose main branch others have moved, without changing a row.

    Attributes:
        staged: snapshots of the batch, oldest first.
        between: those of others, newest first.
    """

    table: LoadedTable
    staged: list[Snapshot]
    between: list[Snapshot]


@dataclass(frozen=True, slots=True)
class _Look:
    """What is left of a publication.

    Attributes:
        changed: tables of which somebody else changed rows, and how.
    """

    moves: list[Change] = field(default_factory=list)
    published: list[TableId] = field(default_factory=list)
    changed: dict[TableId, str] = field(default_factory=dict)
    lagging: list[_Lag] = field(default_factory=list)

    @property
    def is_hindered(self) -> bool:
        """Whether others have committed to tables."""
        return bool(self.changed or self.lagging)


def _none(_table: TableId, _snapshot: Snapshot) -> bool:
    return False


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
                change = set_back(table)
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

    def publish(
        self, staged: Mapping[TableId, int], stamp: Stamp, spares: Spares = _none
    ) -> Published[TableId]:
        """Publish the staged snapshots of a batch, or recognize that they are published.

        Args:
            staged: by table, in order: without atomic commits the last becomes visible last.
            stamp: with which they were staged.
            spares: returns whether a snapshot of somebody else left the sink's columns as they
                were.

        Returns:
            If it is not done, others have committed since. Tables of which they changed no row have
            their staged snapshots on these commits now.

        Raises:
            LakeTaken: another sink has one of the tables; none was published.
            ForeignCommit: somebody else committed to a staging branch; none was published. Set back
                and stage again.
            CatalogUnsafe: the catalog published some tables of one commit.
            CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed. It may still
                publish what it was asked for, which the next attempt recognizes.
        """
        heads, rewritten = dict(staged), []
        look = self._look(heads, stamp, spares)
        for lag in look.lagging:
            head = self._rebase(lag)
            if head is None:
                rewritten.append(lag.table.name)
            else:
                heads[lag.table.name] = head
        if look.changed or rewritten:
            return Published(heads, changed=look.changed, rewritten=rewritten)
        if look.lagging:
            look = self._look(heads, stamp, spares)
            if look.is_hindered:
                return Published(heads, changed=look.changed)
        if not look.moves:
            return Published(heads, is_done=True)
        done = self._commit(look.moves)
        # None left: all is published. A catalog that commits table after table may say that all is
        # done, although a commit of somebody else was in the way.
        left = self._look(heads, stamp, spares)
        if left.is_hindered and done.outcome is not Outcome.UNKNOWN:
            return Published(heads, changed=left.changed)
        if done.outcome is Outcome.DONE:
            if left.moves:
                tables = ", ".join(str(move.table) for move in left.moves)
                raise CatalogUnsafe(
                    self.catalog.name, f"it said that a commit is done, and did not move {tables}"
                )
            _log.info("cut_published", batch=stamp.batch, lsn=stamp.lsn, tables=len(look.moves))
        elif left.moves or left.is_hindered:
            raise self._failed(f"publishing batch {stamp.batch}", done)
        else:
            _log.warning("publication_recognized", batch=stamp.batch, lost=done.reason)
        return Published(heads, is_done=True)

    def _look(self, staged: Mapping[TableId, int], stamp: Stamp, spares: Spares) -> _Look:
        """Return what is left to publish, and what is in the way."""
        look = self._look_once(staged, stamp, spares)
        if look.moves and look.published and self.commits is Commits.ALL_TABLES:
            # An earlier request may have arrived while the tables were read, one after the other.
            look = self._look_once(staged, stamp, spares)
            if look.moves and look.published:
                done = ", ".join(map(str, look.published))
                left = ", ".join(str(move.table) for move in look.moves)
                raise CatalogUnsafe(
                    self.catalog.name, f"of one commit it published {done} and not {left}"
                )
        return look

    def _look_once(self, staged: Mapping[TableId, int], stamp: Stamp, spares: Spares) -> _Look:
        look, tables = _Look(), {name: self.catalog.load(name) for name in staged}
        for name, snapshot in staged.items():
            table = tables[name]
            if table is None:
                look.changed[name] = f"it was dropped {MEANWHILE}"
                continue
            found, stands = table.snapshot(snapshot), stands_on_main(table, snapshot, stamp)
            if table.head(MAIN) == snapshot or (not stands and is_in_main(table, snapshot, stamp)):
                # Without its stamp the batch changed nothing here, which says nothing of others.
                if found is not None and found.stamp == stamp:
                    look.published.append(name)
                continue
            try:
                lag = None if stands else self._lag(table, snapshot, stamp, spares)
                require_columns(table, found)
            except RowsChanged as error:
                look.changed[name] = error.change
                continue
            if lag is None:
                look.moves.append(table.with_heads({MAIN: snapshot}))
            elif lag.staged:
                look.lagging.append(lag)
        return look

    def _lag(self, table: LoadedTable, snapshot: int, stamp: Stamp, spares: Spares) -> _Lag:
        """Return what a staged snapshot lacks of the main branch.

        Raises:
            RowsChanged: somebody else changed rows, or this is another table.
        """
        name, (staged, base) = str(table.name), staged_part(table, snapshot, stamp)
        is_ahead = base is not None and is_in_main(table, base)
        past = {base} if base is not None and is_ahead else ids_of(table, snapshot)
        between = until(table, table.head(MAIN), past)
        ours = [s.stamp for s in between if s.stamp is not None and s.stamp.log == self.log]
        self._require_newest(table, ours)
        if any(found.epoch == self.epoch and found.batch == stamp.batch for found in ours):
            raise ApplyFailed(
                f"publishing batch {stamp.batch}",
                f"an earlier attempt, whose answer was lost, has published table {name}",
            )
        foreign = [s for s in between if s.stamp is None or s.stamp.log != self.log]
        if ours and foreign:
            raise ForeignCommit(name, MAIN, foreign[0].id, foreign[0].operation)
        if ours:
            self.check()
            if all(found.epoch == self.epoch for found in ours):
                raise ForeignCommit(name, BRANCH, base or 0, "moved back")
            raise LakeTaken(name, stamp.batch or 0, ours[0].batch or 0)
        if table.snapshot(snapshot) is None:
            if self._newest(table) is None:
                raise RowsChanged(name, f"it was dropped and created again {MEANWHILE}")
            raise ForeignCommit(name, BRANCH, snapshot, "removed")
        if base is None or (not is_ahead and is_stray(table, base)):
            stray = None if base is None else table.snapshot(base)
            raise ForeignCommit(name, BRANCH, base or 0, stray.operation if stray else "removed")
        change = foreign_change(table, base, self.log, partial(spares, table.name))
        if change is not None:
            raise RowsChanged(name, change)
        return _Lag(table, staged, between)

    def _rebase(self, lag: _Lag) -> int | None:
        """Put what is staged of a table on the newest snapshot of its main branch.

        Returns:
            The staged snapshot; the same if somebody else has committed again. None if the table
            must be staged again.
        """
        table, step = lag.table, f"moving what is staged of table {lag.table.name}"
        try:
            found = rebased(self.catalog.file_classes, table, lag.staged, lag.between)
        except Py4JError as error:
            if not is_conflict(error):
                raise self.catalog.failure(step, error) from error
            found = None
        if found is None:
            return None
        done = self.catalog.commit_one(found.change)
        if done.outcome is Outcome.DONE:
            adopted = [f"{of.id} ({of.operation})" for of in lag.between]
            _log.info("foreign_commits_adopted", table=str(table.name), snapshots=adopted)
            return found.head
        now = self.catalog.load(table.name)
        if done.outcome is Outcome.REFUSED and (now is None or now.head(MAIN) != table.head(MAIN)):
            return lag.staged[-1].id
        raise self._failed(step, done)

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
