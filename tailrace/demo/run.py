"""The demo's conductor: start everything, replay, wait for the lake, stop, verify, report.

Publisher and sink run as the processes that a user would run, from a configuration file that stays
in the data directory. Whatever was started is stopped on every way out.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from tailrace.demo import database, flights, midday
from tailrace.demo.change_tables import ChangeTables, instances_of
from tailrace.demo.configured import PREFIX, write_config
from tailrace.demo.folder import make_empty
from tailrace.demo.patched import whole_in_topics
from tailrace.demo.replay import Replay, Wait, plan
from tailrace.demo.report import Report, make_report, tell
from tailrace.demo.screen import Screen
from tailrace.demo.view import LakeState, Picture
from tailrace.lag.catalog import unnamed
from tailrace.reading.lake import CommitRows
from tailrace.reading.progress import ProgressFollower
from tailrace.settings.load import load
from tailrace.web.run import WebOptions, serving
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.errors import LocalStackError
from tailrace_emulator.testing.process import ChildProcess
from tailrace_schemas.topics.topic_names import TopicNames

if TYPE_CHECKING:
    import pyodbc

WAIT_S: Final = 180
"""The longest wait for any one step to show progress; the whole demo takes less."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What ``tailrace demo`` was asked for.

    Attributes:
        is_in_s3: the lake is in an object store of the demo, else in its folder.
    """

    days: int
    rate: float
    polling_interval_s: int
    data_dir: Path
    is_in_s3: bool
    svg: Path | None


class DemoFailed(Exception):
    """A step did not come to its end; the message says which and where to look."""


def run(options: DemoOptions) -> int:
    """Run the demo; returns the exit status (0 only when everything was verified)."""
    console = Console()
    # A plain `kill` must clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: _interrupt())
    try:
        report = conduct(options, console)
    except (DemoFailed, LocalStackError) as error:
        console.print(f"[bold red]The demo failed:[/] {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; everything that was started is stopped.")
        return 130
    tell(console, report)
    return 0 if report.verified else 1


def conduct(options: DemoOptions, console: Console) -> Report:
    """All steps of the demo, shown on ``console``; its verdict is in the report.

    Raises:
        DemoFailed: a step did not come to its end.
        LocalStackError: broker, registry or source did not start, or the folder is in use.
    """
    picture = Picture(tables=tuple(database.TABLES))
    with Screen(console, picture) as screen:
        report = _Demo(options, picture, screen).run()
    if options.svg is not None:
        screen.save_svg(options.svg)
    return report


def _interrupt() -> None:
    raise KeyboardInterrupt


class _Demo:
    """One run of the demo."""

    def __init__(self, options: DemoOptions, picture: Picture, screen: Screen) -> None:
        self._options = options
        self._picture = picture
        self._screen = screen
        self._names = TopicNames(PREFIX)
        self._children: list[ChildProcess] = []
        self._change_tables = ChangeTables(database.TABLES)

    def run(self) -> Report:
        """All steps in order."""
        make_empty(self._options.data_dir)
        with ExitStack() as cleanup:
            day = midday.with_gates(flights.transactions(self._options.days))
            stack = LocalStack(self._options.data_dir, has_store=self._options.is_in_s3)
            store = ", object store" if self._options.is_in_s3 else ""
            self._say(f"starting Kafka, schema registry, SQL Server{store}", phase="starting")
            cleanup.callback(stack.stop)
            stack.start(self._say)
            config = write_config(self._options.data_dir)
            settings = load(config, {})
            self._lake = settings.sink()
            self._commits = CommitRows.of(self._lake)
            sink = self._child(cleanup, "sink", config)
            connection = cleanup.enter_context(self._connect(stack, "master"))
            self._prepare_source(connection)
            self._publisher = self._child(cleanup, "publish", config)
            follower = ProgressFollower(stack.broker.bootstrap_servers, self._names)
            follower.start()
            cleanup.callback(follower.close)
            self._picture.published = follower.published
            self._picture.page = cleanup.enter_context(serving(settings, WebOptions()))
            self._say(f"the page that shows everything is at {self._picture.page}")
            watch = cleanup.enter_context(self._connect(stack, database.DATABASE))
            self._wait("the snapshot is in the lake", self._snapshot_done, watch)
            self._replay(cleanup, stack, day, watch)
            self._settle(watch, day.transactions)
            self._say("stopping publisher and sink", phase="verifying")
            for child in (self._publisher, sink):
                child.stop(60)
            return self._report(stack, follower, watch, day, config)

    def _child(self, cleanup: ExitStack, command: str, config: Path) -> ChildProcess:
        log = self._options.data_dir / f"{command}.log"
        arguments = [sys.executable, "-m", "tailrace", command, "--config", str(config)]
        child = ChildProcess(f"tailrace {command}", arguments, log)
        cleanup.callback(child.stop)
        child.start()
        self._children.append(child)
        self._say(f"tailrace {command} started, log in {log.name}")
        return child

    @contextlib.contextmanager
    def _connect(self, stack: LocalStack, name: str) -> Iterator[pyodbc.Connection]:
        import pyodbc

        pyodbc.native_uuid = True  # as values, not as upper-case text
        connection = pyodbc.connect(stack.emulator.connection_string(name), autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    def _prepare_source(self, connection: pyodbc.Connection) -> None:
        self._say("creating the airline's database", phase="preparing the source")
        database.create(connection)
        loaded = database.load_reference_tables(connection)
        rows = ", ".join(f"{count} {table}" for table, count in loaded.items())
        self._say(f"loaded before CDC: {rows}")
        database.enable_cdc(connection, polling_interval_s=self._options.polling_interval_s)
        self._say("change data capture enabled on all five tables")

    def _replay(
        self,
        cleanup: ExitStack,
        stack: LocalStack,
        day: midday.Day,
        watch: pyodbc.Connection,
    ) -> None:
        progress = self._picture.replay = plan(day.transactions)
        self._say(
            f"replaying {progress.transactions_total} transactions,"
            f" {progress.statements_total} statements",
            phase="replaying",
        )
        connection = cleanup.enter_context(self._connect(stack, database.DATABASE))

        def at_noon(connection: pyodbc.Connection, wait: Wait) -> None:
            instance = midday.add_gates(connection, day, self._change_tables, wait)
            self._picture.say(f"{midday.DDL}; tailrace publish created {instance}")

        work = Replay(connection, day.transactions, progress, {day.noon: at_noon})
        is_killed = False
        with work.running(self._options.rate):
            while not work.has_ended(0.5):
                self._look(watch)
                if not is_killed and progress.transactions >= day.killed:
                    is_killed = True
                    self._kill_publisher()
        if not is_killed:  # it was replayed faster than anybody looked
            self._kill_publisher()
        if work.failure is not None:
            raise DemoFailed(f"the replay stopped: {work.failure}") from work.failure

    def _kill_publisher(self) -> None:
        """End it at once, in the middle of whatever it does, and start it again."""
        self._publisher.kill()
        self._publisher.start()
        self._say("tailrace publish was killed (SIGKILL), and is started again")

    def _settle(self, watch: pyodbc.Connection, day: list[flights.SourceTransaction]) -> None:
        expected = flights.change_rows(day)
        self._say("the day is over; waiting until everything is in the lake", phase="catching up")
        self._wait("the capture job has captured everything",
                   lambda: self._picture.change_rows == expected, watch)  # fmt: skip
        self._wait("the column is whole in the lake", self._column_is_whole, watch)
        self._wait("the older capture instance is dropped",
                   lambda: len(instances_of(watch, midday.TABLE)) == 1, watch)  # fmt: skip
        self._wait("the topics have everything", self._topics_have_it, watch)
        self._wait("the lake has everything", self._lake_has_it, watch)
        self._wait("every table has its name", lambda: not any(unnamed(self._lake)), watch)

    def _snapshot_done(self) -> bool:
        published = self._picture.published
        return bool(
            published is not None
            and published.transactions
            and not published.snapshotting
            and self._picture.lake.changes >= published.events_total
        )

    def _column_is_whole(self) -> bool:
        published = self._picture.published
        records = [] if published is None else published.records
        whole = whole_in_topics(records, self._names.data(midday.NAME), midday.COLUMN)
        return whole is not None and self._picture.lake.closed_lsn >= whole

    def _topics_have_it(self) -> bool:
        published = self._picture.published
        return published is not None and published.closed_lsn >= self._picture.source_lsn

    def _lake_has_it(self) -> bool:
        return self._picture.lake.closed_lsn >= self._picture.source_lsn

    def _wait(self, what: str, reached: Callable[[], bool], watch: pyodbc.Connection) -> None:
        pause = threading.Event()
        # The bound restarts with every sign of progress: a slow machine is not a failure.
        last, since = self._signs(), 0.0
        while True:
            self._look(watch)
            if reached():
                self._say(what)
                return
            signs = self._signs()
            last, since = (signs, 0.0) if signs != last else (last, since + 0.25)
            if since > WAIT_S:
                raise DemoFailed(
                    f"waited {WAIT_S} s without progress until {what}; see the logs in"
                    f" {self._options.data_dir}"
                )
            pause.wait(0.25)

    def _signs(self) -> tuple[object, ...]:
        """Return what only changes carry on: a quiet database's heartbeats do not count."""
        picture = self._picture
        events = picture.published.events_total if picture.published else 0
        return (dict(picture.change_rows), events, picture.lake.changes)

    def _look(self, watch: pyodbc.Connection) -> None:
        """Ask source and lake for what the view shows, and see that both processes live."""
        for child in self._children:
            if not child.is_running:
                raise DemoFailed(str(child.failure("ended before its time")))
        picture = self._picture
        found = self._change_tables.captured(watch)
        picture.change_rows, picture.source_lsn = found.change_rows, found.max_lsn
        picture.source_commit_ms = found.max_commit_ms
        rows = self._commits.read()
        if rows:
            last = rows[-1]
            time_of_lsn = last.closed_commit_time
            picture.lake = LakeState(
                closed_lsn=last.closed_lsn,
                batches=len(rows),
                changes=sum(row.rows for row in rows),
                commit_ms=None if time_of_lsn is None else round(time_of_lsn.timestamp() * 1000),
                committed_ms=last.committed_ms,
                tables={path.rsplit("/", 1)[1]: v for path, v in last.tables.items()},
            )
        self._screen.refresh()

    def _report(
        self,
        stack: LocalStack,
        follower: ProgressFollower,
        watch: pyodbc.Connection,
        day: midday.Day,
        config: Path,
    ) -> Report:
        self._screen.freeze()
        return make_report(
            bootstrap_servers=stack.broker.bootstrap_servers,
            registry_url=stack.registry.url,
            names=self._names,
            source=watch,
            config=config,
            lake=self._lake,
            commits=self._commits.read(),
            records=follower.published.records,
            replay=self._picture.replay,
            days=self._options.days,
            day=day,
            change_tables=self._change_tables,
            say=self._say,
        )

    def _say(self, text: str, *, phase: str | None = None) -> None:
        if phase is not None:
            self._picture.phase = phase
        self._picture.say(text)
        self._screen.refresh()
