"""StoreSession against a naive model: several sessions, random statements, savepoints, rollbacks.

The model keeps rows in dictionaries by row id. It predicts, for each statement, whether it must
succeed, violate a unique key, or meet another session's lock; after each commit the log, replayed
over what was there before, must give the committed table.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tailrace_emulator.log.records import RowAction, RowChange, RowImage
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.model import Column, Index
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.types import INT, nvarchar

SESSIONS = 3
IDS = st.integers(0, 6)
CODES = st.sampled_from([None, "a", "A", "b", "B ", "c", "d"])
PICKS = st.lists(st.integers(0, 9), min_size=1, max_size=3)

Row = tuple[int, str | None, int]


def code_key(code: str | None) -> str | None:
    return None if code is None else code.rstrip().lower()


def keys(row: Row) -> set[tuple[str, object]]:
    return {("id", row[0]), ("code", code_key(row[1]))}


def attempt(act: Callable[[], object]) -> tuple[object, int | None]:
    """The result, or the error number."""
    try:
        return act(), None
    except SqlError as error:
        return None, error.number


def model_row(image: RowImage) -> Row:
    number, code, n = image
    assert isinstance(number, int)
    assert isinstance(n, int)
    return number, None if code is None else str(code), n


@dataclass
class Saved:
    name: str
    hidden: set[int]
    images: dict[int, Row]


@dataclass
class Session:
    store: StoreSession
    hidden: set[int] = field(default_factory=set)
    images: dict[int, Row] = field(default_factory=dict)
    saved: list[Saved] = field(default_factory=list)
    may_lock: set[object] = field(default_factory=set)
    """Everything that it may hold a lock on: more than it surely does."""


class StoreMachine(RuleBasedStateMachine):
    directory: Path | None = None
    engine: Engine | None = None
    tables = 0

    def __init__(self) -> None:
        super().__init__()
        cls = type(self)
        if cls.engine is None:
            cls.directory = Path(tempfile.mkdtemp(prefix="store-"))
            cls.engine = Engine(cls.directory, ManualClock())
            cls.engine.create_database("shop")
        assert cls.engine is not None
        cls.tables += 1
        self.database = cls.engine.database("shop")
        self.sessions = [Session(StoreSession(cls.engine, 50 + n)) for n in range(SESSIONS)]
        for session in self.sessions:
            session.store.lock_timeout_ms = 0
        store = self.sessions[0].store
        self.table = ddl.create_table(
            store, self.database, "dbo", f"t{cls.tables}",
            [Column(0, "id", INT, nullable=False), Column(0, "code", nvarchar(10)),
             Column(0, "n", INT, nullable=False)],
            indexes=[Index(0, f"PK{cls.tables}", (1,), (False,), unique=True, primary_key=True,
                           clustered=True),
                     Index(0, f"UX{cls.tables}", (2,), (False,), unique=True)],
        )  # fmt: skip
        self.table = ddl.set_tracked(store, self.database, self.table, tracked=True)
        self.committed: dict[int, Row] = {}
        self.replayed: dict[int, Row] = {}
        self.last_lsn = self.database.log.last_commit()
        self.n = 0

    # -- the model --------------------------------------------------------------------------------

    def view(self, session: Session) -> dict[int, Row]:
        rows = {rid: row for rid, row in self.committed.items() if rid not in session.hidden}
        rows.update(session.images)
        return rows

    def others(self, session: Session) -> list[Session]:
        return [other for other in self.sessions if other is not session and other.store.trancount]

    def surely_locked(self, session: Session, rids: set[int], rows: list[Row]) -> bool:
        """Another transaction changed one of these rows, or holds one of the new keys."""
        wanted = {key for row in rows for key in keys(row)}
        for other in self.others(session):
            if rids & (other.hidden | set(other.images)):
                return True
            if wanted & {key for row in other.images.values() for key in keys(row)}:
                return True
        return False

    def maybe_locked(self, session: Session, touched: set[object]) -> bool:
        return any(touched & other.may_lock for other in self.others(session))

    def meets_hidden_key(self, session: Session, rows: list[Row], moving: set[int]) -> bool:
        """A new key is that of a committed row that somebody else is taking away."""
        for other in self.others(session):
            for rid in other.hidden - session.hidden - moving:
                if rid in self.committed and any(
                    keys(row) & keys(self.committed[rid]) for row in rows
                ):
                    return True
        return False

    @staticmethod
    def violates(rows: dict[int, Row]) -> bool:
        ids = [row[0] for row in rows.values()]
        codes = [code_key(row[1]) for row in rows.values()]
        return len(set(ids)) < len(ids) or len(set(codes)) < len(codes)

    def run(
        self, session: Session, hidden: set[int], new: list[tuple[int | None, Row, bool]], act
    ) -> None:
        """Run ``act``; rows ``hidden`` go, ``new`` (rid, row, key is new) come."""
        before = self.view(session)
        after = {rid: row for rid, row in before.items() if rid not in hidden}
        fresh_rids = iter(range(-1, -100, -1))
        after.update({next(fresh_rids) if rid is None else rid: row for rid, row, _ in new})
        new_keys = [row for _, row, key_is_new in new if key_is_new]
        touched: set[object] = set(hidden) | {key for row in new_keys for key in keys(row)}
        for rid, row in self.committed.items():
            if any(keys(row) & keys(key) for key in new_keys):
                touched.add(rid)
        locked = self.surely_locked(session, hidden, new_keys) or self.meets_hidden_key(
            session, new_keys, hidden
        )
        outcome, error = attempt(act)
        if error is not None:
            if session.store.trancount:
                session.may_lock |= touched
            if error == 1222:
                assert self.maybe_locked(session, touched), "waited for nobody"
            else:
                assert error in {2627, 2601}
                assert self.violates(after) or locked
            return
        assert not locked, "went past another transaction's lock"
        assert not self.violates(after), "took a duplicate key"
        rids = outcome if isinstance(outcome, list) else []
        made = iter(rids)
        images = {next(made) if rid is None else rid: row for rid, row, _ in new}
        if session.store.trancount:
            session.may_lock |= touched | set(images)
            session.hidden |= hidden & set(self.committed)
            for rid in hidden:
                session.images.pop(rid, None)
            session.images.update(images)
        else:
            for rid in hidden:
                del self.committed[rid]
            self.committed.update(images)
            self.replay()

    # -- statements -------------------------------------------------------------------------------

    @rule(who=st.integers(0, SESSIONS - 1), number=IDS, code=CODES)
    def insert_alone(self, who: int, number: int, code: str | None) -> None:
        store = self.sessions[who].store
        self.n += 1
        row: Row = (number, code, self.n)
        self.run(
            self.sessions[who], set(), [(None, row, True)],
            lambda: store.run(lambda: store.insert(self.table, [row]), is_single=True),
        )  # fmt: skip

    @rule(who=st.integers(0, SESSIONS - 1), rows=st.lists(st.tuples(IDS, CODES), min_size=1,
                                                          max_size=3))  # fmt: skip
    def insert(self, who: int, rows: list[tuple[int, str | None]]) -> None:
        session = self.sessions[who]
        self.n += 1
        full: list[Row] = [(number, code, self.n) for number, code in rows]
        self.run(
            session, set(), [(None, row, True) for row in full],
            lambda: session.store.insert(self.table, iter(full)),
        )  # fmt: skip

    @rule(who=st.integers(0, SESSIONS - 1), picks=PICKS, shift=st.integers(-1, 2), code=CODES)
    def update(self, who: int, picks: list[int], shift: int, code: str | None) -> None:
        """Some rows: ids shift, the first gets a code."""
        session = self.sessions[who]
        view = self.view(session)
        if not view:
            return
        self.n += 1
        ordered = sorted(view)
        rids = list(dict.fromkeys(ordered[pick % len(ordered)] for pick in picks))
        changes = []
        for position, rid in enumerate(rids):
            number, old_code, _ = view[rid]
            changes.append((rid, (number + shift, code if position == 0 else old_code, self.n)))
        self.run(
            session, set(rids),
            [(rid, row, view[rid][:2] != row[:2]) for rid, row in changes],
            lambda: session.store.update(self.table, iter(changes)),
        )  # fmt: skip

    @rule(who=st.integers(0, SESSIONS - 1), picks=PICKS)
    def delete(self, who: int, picks: list[int]) -> None:
        session = self.sessions[who]
        ordered = sorted(self.view(session))
        if not ordered:
            return
        rids = list(dict.fromkeys(ordered[pick % len(ordered)] for pick in picks))
        self.run(session, set(rids), [], lambda: session.store.delete(self.table, iter(rids)))

    @rule(who=st.integers(0, SESSIONS - 1))
    def shift_all(self, who: int) -> None:
        """UPDATE t SET id = id + 1."""
        session = self.sessions[who]
        view = self.view(session)
        self.n += 1
        changes = [(rid, (row[0] + 1, row[1], self.n)) for rid, row in sorted(view.items())]
        self.run(
            session, set(view), [(rid, row, True) for rid, row in changes],
            lambda: session.store.update(self.table, iter(changes)),
        )  # fmt: skip

    # -- transactions -----------------------------------------------------------------------------

    @rule(who=st.integers(0, SESSIONS - 1))
    def begin(self, who: int) -> None:
        session = self.sessions[who]
        if session.store.trancount == 0:
            session.store.begin()

    @rule(who=st.integers(0, SESSIONS - 1))
    def commit(self, who: int) -> None:
        session = self.sessions[who]
        if session.store.trancount == 0:
            return
        session.store.commit()
        for rid in session.hidden:
            del self.committed[rid]
        self.committed.update(session.images)
        self.forget(session)
        self.replay()

    @rule(who=st.integers(0, SESSIONS - 1))
    def rollback(self, who: int) -> None:
        session = self.sessions[who]
        if session.store.trancount:
            session.store.rollback()
            self.forget(session)

    @rule(who=st.integers(0, SESSIONS - 1), name=st.sampled_from(["one", "two"]))
    def savepoint(self, who: int, name: str) -> None:
        session = self.sessions[who]
        if session.store.trancount:
            session.store.savepoint(name)
            session.saved.append(Saved(name, set(session.hidden), copy.copy(session.images)))

    @precondition(lambda self: any(session.saved for session in self.sessions))
    @rule(who=st.integers(0, SESSIONS - 1), name=st.sampled_from(["one", "two"]))
    def rollback_to(self, who: int, name: str) -> None:
        session = self.sessions[who]
        if session.store.trancount == 0:
            return
        names = [saved.name for saved in session.saved]
        if name not in names:
            assert attempt(lambda: session.store.rollback_to(name)) == (None, 6401)
            return
        position = len(names) - 1 - names[::-1].index(name)
        saved = session.saved[position]
        del session.saved[position + 1 :]
        session.store.rollback_to(name)
        session.hidden = set(saved.hidden)
        session.images = copy.copy(saved.images)

    @staticmethod
    def forget(session: Session) -> None:
        session.hidden, session.images, session.saved = set(), {}, []
        session.may_lock = set()

    # -- what must hold ---------------------------------------------------------------------------

    def replay(self) -> None:
        """The new log transactions, applied in order, give the committed rows."""
        by_id = {row[0]: row for row in self.replayed.values()}
        for transaction in self.database.log.committed(self.last_lsn, 100):
            assert self.last_lsn is None or transaction.commit_lsn > self.last_lsn
            self.last_lsn = transaction.commit_lsn
            changes = [c for c in transaction.changes if isinstance(c, RowChange)]
            assert transaction.change_count == len(changes)
            assert all(transaction.begin_lsn < c.seqval < transaction.commit_lsn for c in changes)
            assert [c.command_id for c in changes] == list(range(1, len(changes) + 1))
            operation = {RowAction.DELETE: 1, RowAction.INSERT: 2, RowAction.UPDATE: 3}
            ordered = sorted(changes, key=lambda c: (c.command_id, c.seqval, operation[c.action]))
            for change in ordered:
                if change.before is not None:
                    before = model_row(change.before)
                    assert by_id.pop(before[0]) == before
                if change.after is not None:
                    after = model_row(change.after)
                    assert after[0] not in by_id
                    by_id[after[0]] = after
        self.replayed = dict(enumerate(by_id.values()))
        assert sorted(by_id.values()) == sorted(self.committed.values())

    @invariant()
    def everyone_sees_what_the_model_sees(self) -> None:
        for session in self.sessions:
            source = session.store.reads.source(self.table)
            rows = session.store.connection.execute(
                f"SELECT rid, c1, c2, c3 FROM {source}"
            ).fetchall()
            assert {row[0]: row[1:] for row in rows} == self.view(session)

    def teardown(self) -> None:
        for session in self.sessions:
            session.store.close()


StoreMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class TestStoreSession(StoreMachine.TestCase):  # type: ignore[valid-type,misc]
    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        machine = StoreMachine
        if machine.engine is not None:
            machine.engine.close()
            machine.engine = None
        if machine.directory is not None:
            shutil.rmtree(machine.directory)
