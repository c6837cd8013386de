"""Old faults, put back one at a time: a simulation that does not find them proves nothing.

The numbers are those of the list of faults that the publisher had on real servers. Faults 5 and 8
lie in the driver's errors and values and have tests there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tailrace_publisher.checkpoint import published
from tailrace_publisher.daemon.session import capture_job_watch as watch
from tailrace_publisher.daemon.session import (
    committer,
    conductor,
    session,
    stream,
    wiring,
)
from tailrace_publisher.daemon.start import opened
from tailrace_publisher.daemon.tables import (
    coverage,
    rotation_step,
    table_record,
    table_update,
    tables,
)
from tailrace_publisher.daemon.upkeep import cleanup as upkeep_cleanup
from tailrace_publisher.daemon.upkeep import lakes, rotation, source_thread
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.errors import (
    DatabaseReplaced,
    PermissionMissing,
    PublisherError,
    SourceBusy,
)
from tailrace_publisher.snapshot import fence, table_reader, table_snapshot
from tailrace_publisher.source.catalog import added_columns, table_instances
from tailrace_publisher.source.connection import tries
from tailrace_publisher.source.log import cleanup, proven_source, scan_sessions, time_marks
from tailrace_publisher.source.log.commit_times import commits_from
from tailrace_publisher.source.log.identity import visible_identity
from tailrace_publisher.source.log.proven_source import PublishedHistory
from tailrace_publisher.source.pages import page_readers, pages, proven_rows
from tailrace_schemas.position.lsn import Lsn
from tests.simulation.ports import replaced

_MAXTRANS_DEFAULT: Final = 500
_STALL_S: Final = 60.0
_LAST_LSN: Final = Lsn.from_bytes(b"\xff" * 10)
_PATIENCE_S: Final = 1.0


def _marks_hide_rows() -> AbstractContextManager[None]:
    """Readers need not see a commit whose LSN is that of a mark of time."""
    return replaced(stream, "seen_by_readers", lambda window, *_: window)


def _names_are_instances() -> AbstractContextManager[None]:
    """After a restart, an instance that was created again under its name is the old one."""
    return replaced(table_record.TableRecord, "object_ids", property(lambda _: {}))


def _order_is_any() -> AbstractContextManager[None]:
    """Amid a transaction an instance goes on that has the rest of it in another order."""
    return replaced(coverage, "_check_order_kept", lambda *_: None)


def _cut_answers_are_whole() -> AbstractContextManager[None]:
    """A time is claimed although the entries of some commits were left out."""
    return replaced(stream.Stream, "may_lack_commits", False)


def _patches_stay() -> AbstractContextManager[None]:
    """A patch waits for an LSN that a lost line of recovery had."""
    real = table_update.replace

    def kept(record: Any, **changes: Any) -> Any:
        is_moved = set(changes) == {"after"}
        return record if is_moved else real(record, **changes)

    return replaced(table_update, "replace", kept)


def _older_instance_goes_early() -> AbstractContextManager[None]:
    """1: nobody looks whether some instance of a followed table holds what comes next."""
    return replaced(coverage, "check_position_held", lambda *_, **__: None)


def _forgotten_versions() -> AbstractContextManager[None]:
    """2: a table keeps versions of instances that the book has forgotten: KeyError in rotation."""
    take_in = table_update.TableUpdate.update

    def taken_in(self: Any, table: Any, catalog: Any) -> None:
        known = dict(table.versions)
        take_in(self, table, catalog)
        for name, versions in known.items():
            table.versions.setdefault(name, versions)

    return replaced(table_update.TableUpdate, "update", taken_in)


def _database_guid_counts() -> AbstractContextManager[None]:
    """3: the GUID of the copy is compared, which is another one on each replica."""

    def check(database: str, known: Any, found: Any, position: Any, **_: Any) -> None:
        if known.database_guid and found.database_guid not in {None, known.database_guid}:
            raise DatabaseReplaced(f"database {database}: its GUID is another one")

    return replaced(opened, "check_same_database", check)


def _any_replica_will_do() -> AbstractContextManager[None]:
    """4: a page does not ask what its connection sees."""
    begin = proven_rows.ProvenRows.__init__

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._sees_range = True

    return replaced(proven_rows.ProvenRows, "__init__", begun)


def _fence_by_clock() -> AbstractContextManager[None]:
    """6: a fence is a moment, and a scan of an unknown bound is taken for one of 500."""
    mark, reached = fence.FenceSource.mark, fence.FenceSource._reached_in_time
    drained = scan_sessions.ScanSession.has_drained

    def marked(self: Any, *args: Any) -> Any:
        return replace(mark(self, *args), log_end=None)

    def has_drained(session: Any, maxtrans: int | None) -> bool:
        return drained(session, maxtrans or _MAXTRANS_DEFAULT)

    def reached_in_time(self: Any, moment: Any) -> Any:
        with (
            replaced(scan_sessions.ScanSession, "has_drained", has_drained),
            replaced(fence, "may_wait_for_replicas", lambda _: False),
        ):
            return reached(self, moment)

    stack = ExitStack()
    stack.enter_context(replaced(fence.FenceSource, "mark", marked))
    stack.enter_context(replaced(fence.FenceSource, "_reached_in_time", reached_in_time))
    return _closing(stack)


def _fresh_because_it_runs() -> AbstractContextManager[None]:
    """7: a capture job that has run lately is taken for one that has captured everything."""
    look = watch.CaptureWatch.look

    def looked(self: Any) -> datetime | None:
        look(self)
        if not self._is_visible:
            return None
        sessions = watch.scan_sessions(self._connection)
        return sessions.moment if watch.scan_age_s(sessions) < _STALL_S else None

    return replaced(watch.CaptureWatch, "look", looked)


def _command_ids_are_there() -> AbstractContextManager[None]:
    """9: a NULL command id is read as it is."""
    of = pages.PageStatements.of.__func__  # type: ignore[attr-defined]

    def made(cls: Any, *given: Any) -> Any:
        statements = of(cls, *given)
        return replace(
            statements,
            **{
                name: getattr(statements, name).replace(
                    "ISNULL([__$command_id], 0)", "[__$command_id]"
                )
                for name in ("rest", "rest_without_id", "later")
            },
        )

    return replaced(pages.PageStatements, "of", classmethod(made))


def _tables_without_command_ids_repeat() -> AbstractContextManager[None]:
    """9b: a table without command ids goes on by seqval behind a position that has one."""
    begin = pages.ChangePages.__init__

    def begun(
        self: Any, connection: Any, instance: Any, schema: Any, span: Any, *rest: Any
    ) -> None:
        begin(self, connection, instance, schema, span, *rest)
        self._after = span.after

    return replaced(pages.ChangePages, "__init__", begun)


def _stops_are_not_written() -> AbstractContextManager[None]:
    """Found here: when every table is stopped, the end comes before the checkpoint says so."""
    refresh = tables.PublishedTables.refresh

    def refreshed(self: Any) -> None:
        refresh(self)
        failure = self.failure()
        if failure is not None:
            raise failure

    return replaced(tables.PublishedTables, "refresh", refreshed)


def _rights_come_back_too_late() -> AbstractContextManager[None]:
    """Found here: a right that is given again while it is asked whose it was ends the publisher."""
    refused = stream.Stream._refused

    def asked(self: Any, readings: Any, window: Any) -> Any:
        return refused(self, readings, window) or PermissionMissing("given again", number=229)

    return replaced(stream.Stream, "_refused", asked)


def _checkpoint_before_the_id() -> AbstractContextManager[None]:
    """Of hand-overs: the checkpoint is read before the transactional id is taken, not behind.

    The progress records are a second witness of it, which there was not then.
    """
    start, read = wiring.KafkaDelivery.start, opened.read_checkpoints
    found: dict[int, Any] = {}

    def started(self: Any) -> None:
        with suppress(PublisherError):  # a first start: the topic is not made yet
            found[id(self._target)] = read(self._target, _PATIENCE_S)
        start(self)

    def stored(topics: Any) -> Any:
        return found.pop(id(topics), None) or read(topics)

    stack = ExitStack()
    stack.enter_context(replaced(wiring.KafkaDelivery, "start", started))
    stack.enter_context(replaced(opened, "read_checkpoints", stored))
    stack.enter_context(_lost_ends_unnoticed())
    return _closing(stack)


def _old_transactions_wait() -> AbstractContextManager[None]:
    """Inside a source transaction only rows and bytes end a Kafka transaction, never its age."""
    return replaced(committer.Committer, "commit_if_old", lambda *_: None)


def _declined_pages_are_passed_over() -> AbstractContextManager[None]:
    """Of blocks: a page that is declined once it is encoded is not read again."""
    return replaced(pages.ChangePages, "read_again", lambda self, *_: self.fetch())


def _one_stray_counts() -> AbstractContextManager[None]:
    """The first record of another producer stops the table."""
    return replaced(conductor.Conductor, "_is_tried_again", lambda *_: False)


def _sent_once() -> AbstractContextManager[None]:
    """A statement that lost against others ends the session, whatever the next try brings."""

    def ended(_: Any, error: SourceBusy) -> None:
        raise error

    stack = ExitStack()
    stack.enter_context(replaced(tries, "TRIES", 1))
    stack.enter_context(replaced(session.Session, "_try_again", ended))
    return _closing(stack)


def _prefix_for_all() -> AbstractContextManager[None]:
    """No start asks whether another database is published under the prefix."""
    return replaced(opened, "_check_alone", lambda *_, **__: None)


def _no_patch() -> AbstractContextManager[None]:
    """Of hand-overs: values that no change table has are not re-read."""
    return replaced(table_update, "patch_of", lambda *_: None)


def _patch_over_newer() -> AbstractContextManager[None]:
    """Of patches: a row that changed while it was read is published as it was read."""
    take = table_snapshot.TableSnapshot.take

    def taken(self: Any, *args: Any) -> Any:
        if self.table.kind is Kind.PATCH:
            self._changed.clear()
        return take(self, *args)

    return replaced(table_snapshot.TableSnapshot, "take", taken)


def _hand_over_early() -> AbstractContextManager[None]:
    """Of hand-overs: the newer instance is read from where the publisher is, not from its start."""
    covers_of = table_update.covers_of

    def covers(table: Any, record: Any, published: Any, reached: Any) -> Any:
        found = covers_of(table, record, published, reached)
        newest = max(found, key=found.__getitem__, default=None)
        return {n: min(lsn, published) if n == newest else lsn for n, lsn in found.items()}

    return replaced(table_update, "covers_of", covers)


def _watermarks_of_lost_primaries() -> AbstractContextManager[None]:
    """Of tables without rows: a watermark is kept though the primary that had it is lost."""
    covers_of = table_update.covers_of

    def covers(table: Any, record: Any, published: Any, reached: Any) -> Any:
        found = covers_of(table, record, published, reached)
        first = record.instances[:1]
        if record.covers_from is not None and first and first[0] in found:
            found[first[0]] = max(found[first[0]], record.covers_from)
        return found

    return replaced(table_update, "covers_of", covers)


def _marks_prove_pages() -> AbstractContextManager[None]:
    """Of replicas: one that lags has all of a range if it has an entry that only marks time."""
    return replaced(page_readers, "NEWEST", "sys.fn_cdc_get_max_lsn()")


def _newest_by_date() -> AbstractContextManager[None]:
    """Of hand-overs: the creation date says which of two instances is the newer one."""

    def by_date(cls: Any, instances: Any, _: Any = None) -> Any:
        return cls(sorted(instances, key=lambda i: (i.create_date, i.object_id)))

    return replaced(table_instances.TableInstances, "of", classmethod(by_date))


def _lists_forgotten() -> AbstractContextManager[None]:
    """Of rotation: a new column is captured, though the instance before it has a column list."""
    stack = ExitStack()
    asked_for = property(lambda lacks: lacks.added)
    stack.enter_context(replaced(added_columns.Uncaptured, "asked_for", asked_for))
    stack.enter_context(replaced(rotation_step, "_unclear", lambda *_: None))
    return _closing(stack)


def _older_dropped_early() -> AbstractContextManager[None]:
    """Of rotation: the older instance goes as soon as there is a newer one."""
    step = rotation.next_step

    def early(table: Any, *lsns: Any) -> Any:
        pair = rotation_step._pair(table.instances) if len(table.instances) > 1 else None
        return step(table, *lsns) if pair is None else rotation_step.Drop(*pair)

    return replaced(rotation, "next_step", early)


def _lake_not_awaited() -> AbstractContextManager[None]:
    """Of lakes: what is published counts as in the lake."""
    return replaced(lakes.Lakes, "closed_lsn", property(lambda _: _LAST_LSN))


def _lost_ends_unnoticed() -> AbstractContextManager[None]:
    """Of lost checkpoints: one that lost its end is taken for the newest."""
    return replaced(published.Published, "is_after", lambda *_: False)


def _any_database_is_changed() -> AbstractContextManager[None]:
    """Of changes of the source: a connection is compared with what its own database has."""
    begin = proven_source.ProvenSource.__init__

    def begun(self: Any, connection: Any, history: Any) -> None:
        entries = commits_from(connection, Lsn.ZERO, 1_000_000)
        own = PublishedHistory.of(
            history.database, visible_identity(connection, warns=False), entries[len(entries) - 1]
        )
        begin(self, connection, own)

    return replaced(proven_source.ProvenSource, "__init__", begun)


def _changed_unguarded() -> AbstractContextManager[None]:
    """Of changes of the source: the batch of a change does not look at the database again."""

    def change(self: Any, statement: str, *parameters: Any, of: Any) -> Any:
        return self.connection.query_sets(statement, *parameters)[-1]

    return replaced(proven_source.ProvenSource, "change", change)


def _changes_are_tried() -> AbstractContextManager[None]:
    """Of changes of the source: one that got no lock is sent again at once."""

    def proven(connection: Any, history: Any) -> Any:
        return proven_source.ProvenSource(tries.TryingConnection(connection), history)

    return replaced(source_thread, "ProvenSource", proven)


def _bites_that_move_nothing() -> AbstractContextManager[None]:
    """Of cleanup: only commits of the low watermark's own time count as ones that move nothing."""

    def bite(connection: Any, after: Lsn, up_to: Lsn, low: Lsn, limit: int) -> Any:
        entries = commits_from(connection, Lsn.ZERO, 1_000_000)
        time = next((e.local_time for e in entries if e.commit_lsn == low), None)
        later = [e for e in entries if after < e.commit_lsn <= up_to and e.local_time != time]
        taken = later[:limit]
        return (taken[-1].commit_lsn, len(taken) == limit) if taken else None

    return replaced(cleanup, "_bite", bite)


def _faults_end_all() -> AbstractContextManager[None]:
    """Of upkeep: a fault in one of its threads ends the publisher."""
    stack = ExitStack()
    for where in (rotation, upkeep_cleanup, lakes):
        stack.enter_context(replaced(where, "result_of", lambda done, _: done.result()))
    return _closing(stack)


def _done_is_committed() -> AbstractContextManager[None]:
    """Of sessions: one that ended counts, whether its rows can be read or not."""

    def ended(self: Any) -> Iterator[Any]:
        return (s for s in self.newest_first if s.end_time is not None and not s.error_count)

    return replaced(scan_sessions.Sessions, "committed", ended)


def _marks_are_ends() -> AbstractContextManager[None]:
    """Of time marks: a window closes at a mark, whatever is still captured below it."""

    def proven(self: Any, mark: Lsn, _: Lsn) -> bool:
        self.proven = mark
        return True

    return replaced(time_marks.TimeMarks, "prove", proven)


def _masked_pages() -> AbstractContextManager[None]:
    """Of masks: a page does not ask whether its values are masked."""
    stack = ExitStack()
    proof = replaced(
        proven_rows, "proof_of", lambda instance: (proven_rows.LOW_WATERMARK, (instance.name,))
    )
    for each in (proof, _masks_asked_after()):
        stack.enter_context(each)
    return _closing(stack)


def _masks_asked_after() -> AbstractContextManager[None]:
    """Of masks: what UNMASK was given for between the rows and the question counts as seen."""
    return replaced(proven_rows, "first_of", lambda _: (f"SELECT {page_readers.NEWEST};", ()))


def _masked_chunks() -> AbstractContextManager[None]:
    """Of masks and policies: a chunk does not ask whether values or rows are hidden."""
    return replaced(table_reader.TableReader, "_check_visible", lambda *_: None)


def _masks_at_starts_only() -> AbstractContextManager[None]:
    """Of masks: a refresh does not ask; only a start does."""
    return replaced(table_update, "check_readable", lambda *_: None)


def _requests_for_hidden_rows() -> AbstractContextManager[None]:
    """Of masks and policies: a request does not ask whether the rows may be read."""
    return replaced(tables.PublishedTables, "rows_refusal", lambda *_: None)


@contextmanager
def _closing(stack: ExitStack) -> Iterator[None]:
    with stack:
        yield


MUTANTS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "1": _older_instance_goes_early,
    "2": _forgotten_versions,
    "3": _database_guid_counts,
    "4": _any_replica_will_do,
    "6": _fence_by_clock,
    "7": _fresh_because_it_runs,
    "9": _command_ids_are_there,
    "9b": _tables_without_command_ids_repeat,
    "stops-not-written": _stops_are_not_written,
    "rights-too-late": _rights_come_back_too_late,
    "checkpoint-before-id": _checkpoint_before_the_id,
    "never-too-old": _old_transactions_wait,
    "one-stray-counts": _one_stray_counts,
    "sent-once": _sent_once,
    "declined-passed-over": _declined_pages_are_passed_over,
    "prefix-for-all": _prefix_for_all,
    "no-patch": _no_patch,
    "patch-over-newer": _patch_over_newer,
    "hand-over-early": _hand_over_early,
    "newest-by-date": _newest_by_date,
    "marks-prove-pages": _marks_prove_pages,
    "lost-watermarks": _watermarks_of_lost_primaries,
    "lists-forgotten": _lists_forgotten,
    "older-dropped-early": _older_dropped_early,
    "lake-not-awaited": _lake_not_awaited,
    "lost-ends-unnoticed": _lost_ends_unnoticed,
    "any-database": _any_database_is_changed,
    "unguarded": _changed_unguarded,
    "changes-tried": _changes_are_tried,
    "moves-nothing": _bites_that_move_nothing,
    "faults-end-all": _faults_end_all,
    "done-is-committed": _done_is_committed,
    "marks-are-ends": _marks_are_ends,
    "masked-pages": _masked_pages,
    "masked-chunks": _masked_chunks,
    "masks-at-starts-only": _masks_at_starts_only,
    "requests-for-hidden-rows": _requests_for_hidden_rows,
    "order-is-any": _order_is_any,
    "cut-answers-are-whole": _cut_answers_are_whole,
    "patches-stay": _patches_stay,
    "names-are-instances": _names_are_instances,
    "masks-asked-after": _masks_asked_after,
    "marks-hide-rows": _marks_hide_rows,
}
SIGNS: Final = {
    "1": (": at ", "missing ["),
    "2": ("KeyError",),
    "3": ("DatabaseReplaced",),
    "4": (": at ", "missing ["),
    "6": (": at ",),
    "7": ("is said to be out",),
    "9": ("This is a fault of Tailrace",),  # whose text is left out: it may hold values
    "9b": ("twice", "comes behind", "positions go back"),
    "stops-not-written": ("ended by itself: PositionExpired",),
    "rights-too-late": ("ended by itself: PermissionMissing",),
    "checkpoint-before-id": ("twice", "comes behind", "positions go back", "progress record"),
    "never-too-old": ("does not catch up",),
    "one-stray-counts": ("does not catch up",),
    "sent-once": ("began again for one statement",),
    "declined-passed-over": ("missing [", ": at "),
    "prefix-for-all": ("was published under prefix",),
    "no-patch": (" lacks ",),
    "patch-over-newer": (": at ",),
    "hand-over-early": ("missing [", ": at ", " lacks "),
    "newest-by-date": (" lacks ", ": at "),
    "marks-prove-pages": ("missing [", ": at "),
    "lost-watermarks": ("does not catch up",),
    "lists-forgotten": ("which no list of an operator has",),
    "lost-ends-unnoticed": ("twice", "comes behind", "positions go back", "progress record"),
    "older-dropped-early": (
        *("is not in the cut", "was stopped", "does not catch up"),
        "that are not published",
    ),
    "lake-not-awaited": ("that the lake lacks",),
    "any-database": ("that are not published",),
    "unguarded": ("without a proof in its batch",),
    "changes-tried": ("is sent again at once",),
    "moves-nothing": ("moves nothing",),
    "faults-end-all": ("the publisher died of",),
    "done-is-committed": (": at ", "is said to be out"),
    "marks-are-ends": ("missing [", ": at ", "is said to be out"),
    "masked-pages": (": at ",),
    "masked-chunks": (": at ", "missing ["),
    "order-is-any": ("missing [",),
    "cut-answers-are-whole": ("is said to be out",),
    "patches-stay": ("does not catch up",),
    "names-are-instances": (" lacks ",),
    "marks-hide-rows": ("missing [",),
    "masks-asked-after": (" before.", " after.", ": at "),
    "own-names-alone": ("is a topic of no table", "published twice", "was stopped"),
}
"""What a finding says that is of the fault: of these words, one."""


@contextmanager
def put_back(name: str | None) -> Iterator[None]:
    """Put a fault back while the block runs; none for None."""
    if name is None:
        yield
        return
    with MUTANTS[name]():
        yield
