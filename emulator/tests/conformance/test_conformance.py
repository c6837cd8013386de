"""Runs the cases through the real ODBC driver, on the embedded server or on a given one."""

import itertools
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pyodbc
import pytest

from emulator.tests.conformance.case import (
    GRANTS,
    PUBLISHER,
    Case,
    Names,
    load_cases,
    text_of,
    type_of,
)
from emulator.tests.fix_conformance import DIFFERENCE, SOURCE
from emulator.tests.fix_emulator import EmulatorProcess
from emulator.tests.fix_sqlserver import drop_database, replaced
from tailrace_emulator.testing.source import capture_by_hand

PASSWORD = "Conformance-1"
CLOSE_TIMEOUT_S = 30
AGENT_STARTS_S = 20
PAUSE_S = 0.1
NOT_RUNNING = 22022
NO_AGENT = "SQLServerAgent is not currently running"
_NUMBER = re.compile(r"\((\d+)\) \(SQL")
_numbers = itertools.count(1)
# Of this run alone: a given server may be used by several at once.
_RUN = uuid.uuid4().hex[:6]


CLOCK_BEGINS = "2026-03-01T12:00:00"


@pytest.fixture(scope="module")
def admin_emulator(tmp_path_factory) -> Iterator[EmulatorProcess]:
    """A server whose clock and jobs the cases drive themselves."""
    options = ("--admin", "--clock", CLOCK_BEGINS)
    server = EmulatorProcess(tmp_path_factory.mktemp("admin"), options=options)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def target(request, case: Case) -> str:
    """Connection string of the server that is tried."""
    given = request.config.getoption("--sqlserver-dsn")
    if given and case.server == "plain":
        return str(given)
    if given:
        pytest.skip("about the embedded server only")
    name = "admin_emulator" if case.server == "admin" else "module_emulator"
    server = request.getfixturevalue(name)
    return str(server.connection_string())


@pytest.fixture
def connection(target: str, case: Case) -> Iterator[pyodbc.Connection]:
    """A connection whose database was made for the case, and is dropped after it."""
    name = f"conformance_{_RUN}_{next(_numbers)}"
    with pyodbc.connect(target, autocommit=True, timeout=10) as made:
        made.execute(f"CREATE DATABASE [{name}]")
        made.execute(f"USE [{name}]")
        if case.database == "cdc":
            made.execute("EXEC sys.sp_cdc_enable_db")
        yield made
        drop_database(made, name)


@pytest.fixture
def cursor_of(
    target: str, case: Case, connection: pyodbc.Connection
) -> Iterator[Callable[[str | None], pyodbc.Cursor]]:
    """``cursor_of(name)`` runs as a login of the case, ``cursor_of(None)`` as sysadmin."""
    ((database,),) = connection.execute("SELECT DB_NAME()").fetchall()
    opened: dict[str, pyodbc.Connection] = {}
    for name in case.logins:
        login = f"{database}_{name}"
        connection.execute(f"CREATE LOGIN [{login}] WITH PASSWORD = N'{PASSWORD}'")
        connection.execute(f"CREATE USER [{name}] FOR LOGIN [{login}]")
        for grant in GRANTS if name == PUBLISHER else ():
            connection.execute(grant.format(user=f"[{name}]"))

    def cursor(name: str | None) -> pyodbc.Cursor:
        if name is None:
            return connection.cursor()
        if name not in opened:
            login = {"DATABASE": database, "UID": f"{database}_{name}", "PWD": PASSWORD}
            opened[name] = pyodbc.connect(replaced(target, login), autocommit=True, timeout=10)
        return opened[name].cursor()

    yield cursor
    for made in opened.values():
        made.close()
    connection.execute("USE master")
    for name in case.logins:
        drop_login(connection, f"{database}_{name}")


def drop_login(connection: pyodbc.Connection, login: str) -> None:
    """Drop a login as soon as the server has seen its connection close (else 15434)."""
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    pause = threading.Event()
    dropped = False
    while not dropped:
        try:
            connection.execute(f"DROP LOGIN [{login}]")
            dropped = True
        except pyodbc.Error as error:
            if native_number(error) != 15434 or time.monotonic() > deadline:
                raise
            pause.wait(0.01)


def native_number(error: pyodbc.Error) -> int:
    """SQL Server's number: what stands before the name of the ODBC function."""
    found = _NUMBER.findall(str(error.args[1]))
    return int(found[0]) if found else 0


def run(cursor: pyodbc.Cursor, sql: str):
    """Executes; returns (description, rows) of the first result set, and all messages."""
    cursor.execute(sql)
    description, rows, messages = None, None, list(cursor.messages or ())
    while True:
        if cursor.description is not None and rows is None:
            description, rows = cursor.description, cursor.fetchall()
        elif cursor.description is not None:
            cursor.fetchall()
        if not cursor.nextset():
            break
        messages += list(cursor.messages or ())
    texts = [re.sub(r"^(\[[^\]]*\])*", "", text) for _, text in messages]
    return description, rows, texts


class Scanning:
    """Lets the capture process read the log to its end, whenever a case says so.

    The Agent starts the capture job of a database a second or two after the first table was
    enabled. A stop before that is refused, and the job would capture what the case does between
    two scans. So the first scan waits for the job.

    Args:
        has_agent: the server may have an Agent that nobody drives.
        pause: between two looks.
    """

    def __init__(self, *, has_agent: bool, pause: Callable[[], object] | None = None) -> None:
        self._has_agent = has_agent
        self._pause = pause or (lambda: threading.Event().wait(PAUSE_S))

    def __call__(self, connection: pyodbc.Connection) -> None:
        if self._has_agent:
            self._stop_job(connection)
            self._has_agent = False
        capture_by_hand(connection)

    def _stop_job(self, connection: pyodbc.Connection) -> None:
        deadline = time.monotonic() + AGENT_STARTS_S
        while True:
            try:
                connection.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
            except pyodbc.Error as error:
                starts_late = native_number(error) == NOT_RUNNING and NO_AGENT not in str(error)
                if not starts_late or time.monotonic() > deadline:
                    return
                self._pause()
            else:
                return


class Difference(AssertionError):
    """A server answers otherwise than a case says.

    Attributes:
        expected, got: both sides in a line.
    """

    def __init__(self, expected: object, got: object) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = str(expected), str(got)


def check_step(cursor: pyodbc.Cursor, step: dict, names: Names, database: str) -> None:
    sql = step["sql"].replace("{database}", database)
    wanted = int(step.get("error", 0))
    text = step.get("error_text", "").replace("{database}", database)
    shown = f"error {wanted} {text}".rstrip() if wanted else "no error"
    try:
        description, rows, messages = run(cursor, sql)
    except pyodbc.Error as error:
        said = re.sub(r"^(\[[^\]]*\] ?)*", "", str(error.args[1]))
        if native_number(error) != wanted or text not in error.args[1]:
            raise Difference(shown, f"error {native_number(error)}: {said}") from error
        return
    if wanted:
        raise Difference(shown, f"no error; rows {rows}")
    if "rows" in step:
        named = [[named_in(value, database) for value in row] for row in step["rows"]]
        step = {**step, "rows": named}
    if ("columns" in step or "rows" in step) and (description is None or rows is None):
        raise Difference("a result set", "none")
    if "columns" in step:
        check_columns(step["columns"], description)
    if "rows" in step:
        check_rows(step, [tuple(row) for row in rows], names)
    if "messages" in step:
        told = [text.replace("{database}", database) for text in step["messages"]]
        if messages != told:
            raise Difference(f"messages {told}", messages)


def named_in(value: object, database: str) -> object:
    """An expected value with the case's database for ``{database}``."""
    return value.replace("{database}", database) if isinstance(value, str) else value


def check_columns(expected: list[str], description: tuple) -> None:
    """Names, in order, and types where the case gives them."""
    shown = [f"{column[0]} {type_of(column)}" for column in description]
    for wanted, column in zip(expected, shown, strict=False):
        if column != wanted and column.rpartition(" ")[0] != wanted:
            raise Difference(f"column {wanted}", column)
    if len(shown) != len(expected):
        raise Difference(f"{len(expected)} columns", shown)


def check_rows(step: dict, rows: list[tuple], names: Names) -> None:
    expected = step["rows"]
    if len(rows) != len(expected):
        raise Difference(f"{len(expected)} rows {expected}", f"{len(rows)} rows {rows}")
    if step.get("unordered"):
        rows = sorted(rows, key=lambda row: [str(value) for value in row])
        expected = sorted(expected, key=lambda row: [str(value) for value in row])
    for row, wanted in zip(rows, expected, strict=True):
        if len(row) != len(wanted):
            raise Difference(wanted, row)
        for value, pattern in zip(row, wanted, strict=True):
            if not names.matches(pattern, value):
                raise Difference(f"{pattern} in {wanted}", f"{text_of(value)} in {row}")


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_case(
    case: Case, connection: pyodbc.Connection, cursor_of, record_property, request
) -> None:
    record_property(SOURCE, case.source)
    names = Names()
    is_given = request.config.getoption("--sqlserver-dsn") is not None
    scan = Scanning(has_agent=is_given)
    ((database,),) = connection.execute("SELECT DB_NAME()").fetchall()
    for number, step in enumerate(case.steps, 1):
        sql = step.get("sql", "scan")
        try:
            if step.get("scan"):
                scan(connection)
            else:
                check_step(cursor_of(step.get("as")), step, names, database)
        except Difference as found:
            found.add_note(f"in step {number}: {sql}")
            place = f"{case.name}, step {number}"
            record_property(DIFFERENCE, [place, sql, found.expected, found.got])
            raise
        except pyodbc.Error as error:
            raise AssertionError(f"step {number} ({sql}): {error}") from error
