"""Quoting, and what the driver's text form of datetimeoffset becomes."""

import struct
from types import SimpleNamespace
from typing import Any

import pyodbc
import pytest
from pydantic import ValidationError

from tailrace_publisher.errors import (
    DatabaseUnknown,
    EncryptionRefused,
    LoginRefused,
    PermissionMissing,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    TableFailed,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection import connection as connections
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.converters import datetimeoffset_text
from tailrace_publisher.source.connection.quoting import connection_string, quote_name, quote_text
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import problems


def test_values_cannot_end_early_in_the_connection_string():
    config = SourceConfig.model_validate(
        {"host": "h", "database": "d;UID=x", "user": "u", "password": "p}a;ss{w"}
    )

    text = connection_string(config, "/lib/driver.so")

    assert "DATABASE={d;UID=x}" in text
    assert "PWD={p}}a;ss{w}" in text


def test_the_password_is_not_shown():
    config = SourceConfig.model_validate(
        {"host": "h", "database": "d", "user": "u", "password": "s3cret"}
    )

    assert "s3cret" not in repr(config)
    assert "s3cret" not in config.model_dump_json()


def test_identifiers_and_literals_are_quoted():
    assert quote_name("a]b") == "[a]]b]"
    assert quote_text("it's") == "N'it''s'"


def test_datetimeoffset_keeps_seven_digits_and_the_offset():
    raw = struct.pack("<6hI2h", 2013, 1, 2, 3, 4, 5, 123456700, -5, -30)

    assert datetimeoffset_text(raw) == "2013-01-02T03:04:05.1234567-05:30"


class Driver:
    """A driver that fetches one value as pyodbc does: what it knows no type for, it refuses.

    pyodbc gives a value of such a type, or of one with an output converter, as its bytes.
    """

    def __init__(self, sql_type: int, raw: bytes) -> None:
        self._sql_type, self._raw = sql_type, raw
        self._converters: dict[int, Any] = {}
        self.description = ("value",)
        self.fetched = 0

    def add_output_converter(self, sql_type: int, convert: Any) -> None:
        self._converters[sql_type] = convert

    def remove_output_converter(self, sql_type: int) -> None:
        del self._converters[sql_type]

    def setdecoding(self, *_: Any, **__: Any) -> None:
        pass

    def cursor(self) -> Any:
        return self

    def execute(self, *_: Any) -> None:
        pass

    def fetchall(self) -> list[tuple[Any]]:
        self.fetched += 1
        if self._sql_type in self._converters:
            return [(self._converters[self._sql_type](self._raw),)]
        if self._sql_type == pyodbc.SQL_WVARCHAR:
            return [(self._raw.decode("utf-16le"),)]
        reason = f"ODBC SQL type {self._sql_type} is not yet supported.  column-index=0"
        raise pyodbc.ProgrammingError("HY106", f"{reason}  type={self._sql_type}")

    def nextset(self) -> bool:
        return False

    def close(self) -> None:
        pass


def connected(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> OdbcConnection:
    module = SimpleNamespace(
        Error=pyodbc.Error, SQL_CHAR=1, SQL_WCHAR=-8, connect=lambda *_, **__: driver
    )
    monkeypatch.setattr(connections, "load_pyodbc", lambda: module)
    monkeypatch.setattr(connections, "find_driver", lambda _: "driver")
    monkeypatch.setattr(connections, "check_reachable", lambda _: None)
    return OdbcConnection(
        SourceConfig.model_validate({"host": "h", "database": "d", "user": "u", "password": "p"})
    )


def test_clr_types_are_read_as_their_bytes(monkeypatch: pytest.MonkeyPatch):
    """hierarchyid, geometry and geography: ODBC SQL type -151, of which pyodbc knows nothing."""
    driver = Driver(-151, b"\x5a\xc0")

    assert connected(monkeypatch, driver).query("SELECT h") == [(b"\x5a\xc0",)]


def test_a_type_that_the_driver_cannot_fetch_is_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SourceError, match="type -199 is not yet supported") as raised:
        connected(monkeypatch, Driver(-199, b"")).query("SELECT x")

    assert type(raised.value) is SourceError
    assert raised.value.sqlstate == "HY106"


def test_half_a_surrogate_pair_is_read_by_a_second_look(monkeypatch: pytest.MonkeyPatch):
    driver = Driver(pyodbc.SQL_WVARCHAR, "a\ud83d".encode("utf-16le", "surrogatepass"))
    connection = connected(monkeypatch, driver)

    assert connection.query("SELECT x") == [("a\ud83d",)]
    assert driver.fetched == 2
    assert driver._converters.keys() == {-155, -151}, "the next page is read at full speed"


def test_whole_text_is_read_once(monkeypatch: pytest.MonkeyPatch):
    driver = Driver(pyodbc.SQL_WVARCHAR, "\U0001f600".encode("utf-16le"))

    assert connected(monkeypatch, driver).query("SELECT x") == [("\U0001f600",)]
    assert driver.fetched == 1


# -- errors ----------------------------------------------------------------------------------------

DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server]"


def diagnostics(function: str, *records: tuple[str, str, int]) -> pyodbc.Error:
    """The exception of pyodbc for some diagnostic records: state, message, native number.

    The function's name stands behind the first record only.
    """
    texts = [
        f"[{state}] {DRIVER}{message} ({number}){f' ({function})' if not index else ''}"
        for index, (state, message, number) in enumerate(records)
    ]
    return pyodbc.Error(records[0][0], "; ".join(texts))


class Refusing:
    """A driver that cannot connect, or whose statements fail."""

    description = None

    def __init__(self, error: pyodbc.Error) -> None:
        self._error = error

    def add_output_converter(self, *_: Any) -> None:
        pass

    def setdecoding(self, *_: Any, **__: Any) -> None:
        pass

    def cursor(self) -> Any:
        return self

    def execute(self, *_: Any) -> None:
        raise self._error

    def close(self) -> None:
        pass


def refuse(monkeypatch: pytest.MonkeyPatch, *records: tuple[str, str, int]) -> SourceError:
    """What a login with that outcome raises."""

    def connect(*_: Any, **__: Any) -> Any:
        raise diagnostics("SQLDriverConnect", *records)

    module = SimpleNamespace(Error=pyodbc.Error, SQL_CHAR=1, SQL_WCHAR=-8, connect=connect)
    monkeypatch.setattr(connections, "load_pyodbc", lambda: module)
    monkeypatch.setattr(connections, "find_driver", lambda _: "driver")
    monkeypatch.setattr(connections, "check_reachable", lambda _: None)
    config = {"host": "h", "database": "d", "user": "u", "password": "p"}
    with pytest.raises(SourceError) as raised:
        OdbcConnection(SourceConfig.model_validate(config))
    return raised.value


def fail(monkeypatch: pytest.MonkeyPatch, *records: tuple[str, str, int]) -> SourceError:
    """What a statement with that outcome raises."""
    driver: Any = Refusing(diagnostics("SQLExecDirectW", *records))
    with pytest.raises(SourceError) as raised:
        connected(monkeypatch, driver).query("SELECT 1")
    return raised.value


CANNOT_OPEN = (
    "42000",
    '[SQL Server]Cannot open database "d" requested by the login. The login failed.',
    4060,
)
LOGIN_FAILED = ("28000", "[SQL Server]Login failed for user 'u'.", 18456)
NO_GROUP = (
    "42000",
    "[SQL Server]Unable to access availability database 'd' because the database replica is not in"
    " the PRIMARY or SECONDARY role. Connections are permitted only"
    " when it is in one of them. Try the operation again later.",
    983,
)
IN_RECOVERY = (
    "42000",
    "[SQL Server]Database 'd' is being recovered. Waiting until recovery is finished.",
    922,
)
UPGRADING = (
    "28000",
    "[SQL Server]Login failed for user 'u'. Reason: Server is in script upgrade mode. Only"
    " administrator can connect at this time.",
    18401,
)
NO_SERVER = ("08001", "TCP Provider: Error code 0x2749", 10061)
TIMED_OUT = ("HYT00", "Login timeout expired", 0)
INSTANCE = (
    "08001",
    "A network-related or instance-specific error has occurred while establishing a connection to"
    " h,1433. Server is not found or not accessible.",
    10061,
)
NOT_TRUSTED = (
    "08001",
    "SSL Provider: [error:0A000086:SSL routines::certificate verify failed]",
    -1,
)
NOT_ESTABLISHED = ("08001", "Client unable to establish connection", -1)


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([CANNOT_OPEN, LOGIN_FAILED], DatabaseUnknown),
        ([LOGIN_FAILED, CANNOT_OPEN], DatabaseUnknown),
        ([LOGIN_FAILED], LoginRefused),
        ([LOGIN_FAILED, LOGIN_FAILED], LoginRefused),
        ([NO_GROUP, CANNOT_OPEN, LOGIN_FAILED], SourceUnavailable),
        ([CANNOT_OPEN, LOGIN_FAILED, NO_GROUP], SourceUnavailable),
        ([IN_RECOVERY, CANNOT_OPEN, LOGIN_FAILED], SourceUnavailable),
        ([UPGRADING], SourceUnavailable),
        ([NO_SERVER, TIMED_OUT, INSTANCE], SourceUnavailable),
        ([NOT_TRUSTED, NOT_ESTABLISHED], EncryptionRefused),
    ],
)
def test_what_a_refused_login_says(
    monkeypatch: pytest.MonkeyPatch,
    records: list[tuple[str, str, int]],
    kind: type[SourceError],
):
    """A failover or a recovery goes before what the login says of the database, or of itself."""
    error = refuse(monkeypatch, *records)

    assert type(error) is kind
    assert records[0][1] in str(error)
    assert error.retryable == (kind is SourceUnavailable)


@pytest.mark.parametrize(
    ("records", "may_heal"),
    [
        ([CANNOT_OPEN, LOGIN_FAILED], True),
        ([NOT_TRUSTED, NOT_ESTABLISHED], True),
        ([LOGIN_FAILED], False),
        ([("42000", "[SQL Server]The server principal is not able to access it.", 916)], False),
        ([("42000", "[SQL Server]Something else.", 50000)], True),
    ],
)
def test_what_may_heal_once_it_has_worked(
    monkeypatch: pytest.MonkeyPatch, records: list[tuple[str, str, int]], may_heal: bool
):
    assert refuse(monkeypatch, *records).may_heal == may_heal


UNAVAILABLE = [64, 121, 596, 976, 983, 4221, 10928, 10929, 40143, 40613, 49918, 49919, 49920]
BUSY = [701, 802, 1204, 1205, 1222, 3960, 3961, 8645, 8651, 41305]


@pytest.mark.parametrize(
    ("number", "kind"),
    [(n, SourceUnavailable) for n in UNAVAILABLE] + [(n, SourceBusy) for n in BUSY],
)
def test_a_statement_that_may_succeed_later_stops_no_table(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SourceError]
):
    error = fail(monkeypatch, ("42000", "[SQL Server]Later, please.", number))

    assert type(error) is kind
    assert error.number == number
    assert error.retryable
    with pytest.raises(kind), of_one_table(TableName("d", "dbo", "t"), "reading"):
        raise error


@pytest.mark.parametrize(
    ("number", "kind"),
    [(207, SourceError), (208, SourceError), (229, PermissionMissing), (297, PermissionMissing)],
)
def test_a_statement_that_never_succeeds(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SourceError]
):
    error = fail(monkeypatch, ("42000", "[SQL Server]No.", number))

    assert type(error) is kind
    assert not error.retryable
    assert not error.may_heal
    with pytest.raises(TableFailed), of_one_table(TableName("d", "dbo", "t"), "reading"):
        raise error


_WRAPS = (
    "[SQL Server]Could not update the metadata that indicates table [dbo].[orders] is enabled for"
    " Change Data Capture. The failure occurred when executing the command '{}'. The error returned"
    " was {}: '{}'. Use the action and error to determine the cause of the failure and resubmit the"
    " request."
)
_LOCKED = "Lock request time out period exceeded."
_REFUSED = "The SELECT permission was denied on the object 'orders', database 'd', schema 'dbo'."
_DEADLOCK = _WRAPS.format("sp_cdc_add_job", 1205, "Transaction was deadlocked.")


@pytest.mark.parametrize(
    ("text", "outer", "kind", "number"),
    [
        (_WRAPS.format("create index", 1222, _LOCKED), 22832, SourceBusy, 1222),
        (_WRAPS.format("SetCDCTracked(Value = 1)", 1205, _LOCKED), 22830, SourceBusy, 1205),
        (_WRAPS.format("create role [r]", 229, _REFUSED), 22832, PermissionMissing, 229),
        (_WRAPS.format("create role [r]", 15247, _REFUSED), 22832, PermissionMissing, 15247),
        (_WRAPS.format("add", 22836, _DEADLOCK), 22832, SourceBusy, 1205),
        (_WRAPS.format("drop table", 1222, _LOCKED), 22837, SourceBusy, 1222),
        ("[SQL Server]The application lock request was not granted.", 22840, SourceBusy, 22840),
        ("[SQL Server]Row 1222: 'x' is wrong.", 50000, SourceError, 50000),
    ],
)
def test_the_cause_that_a_procedure_of_cdc_wraps_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    outer: int,
    kind: type[SourceError],
    number: int,
):
    error = fail(monkeypatch, ("42000", text, outer))
    assert type(error) is kind
    assert error.number == number


def test_numbers_in_a_message_are_no_error_numbers(monkeypatch: pytest.MonkeyPatch):
    """Names and types may stand in parentheses, before a bracket and a semicolon too."""
    message = "[SQL Server]Conversion of varchar(64); char (121) [x(64) [y]] failed (1205) here."
    error = fail(monkeypatch, ("22018", message, 245))

    assert type(error) is SourceError
    assert error.number == 245


def test_a_connection_that_broke_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    records = [
        ("08S01", "TCP Provider: Error code 0x68", 104),
        ("08S01", "Communication link failure", 104),
    ]

    assert type(fail(monkeypatch, *records)) is SourceUnavailable


# -- further keywords ------------------------------------------------------------------------------

HOST = {"host": "h", "database": "d"}
LOGIN = {"user": "u", "password": "s3cret"}


def source(**options: Any) -> SourceConfig:
    return SourceConfig.model_validate({**HOST, **options})


@pytest.mark.parametrize(
    ("options", "there", "absent"),
    [
        (
            {**LOGIN, "odbc": {"multisubnetfailover": "Yes", "ServerSPN": "MSSQLSvc/h:1}433"}},
            [
                "UID={u}",
                "PWD={s3cret}",
                "MultiSubnetFailover={Yes}",
                "ServerSPN={MSSQLSvc/h:1}}433}",
            ],
            [],
        ),
        (
            {"odbc": {"Trusted_Connection": "Yes"}},
            ["Trusted_Connection={Yes}"],
            ["UID=", "PWD="],
        ),
        (
            {"odbc": {"Authentication": "ActiveDirectoryMsi"}, "user": "identity"},
            ["Authentication={ActiveDirectoryMsi}", "UID={identity}"],
            ["PWD="],
        ),
        (
            {**LOGIN, "odbc": {"Authentication": "ActiveDirectoryServicePrincipal"}},
            ["Authentication={ActiveDirectoryServicePrincipal}", "UID={u}", "PWD={s3cret}"],
            [],
        ),
    ],
)
def test_further_keywords_are_in_the_connection_string(
    options: dict[str, Any], there: list[str], absent: list[str]
):
    config = source(**options)
    text = connection_string(config, "/lib/driver.so")
    for part in there:
        assert part in text
    for part in absent:
        assert part not in text
    assert "s3cret" not in repr(config)
    assert "MSSQLSvc" not in repr(config)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "user is missing"),
        ({"user": "u"}, "give exactly one of password and password_file"),
        ({**LOGIN, "odbc": {"PWD": "x"}}, "PWD: it is the option source.password"),
        ({**LOGIN, "odbc": {"MultiSubnetFailovr": "Yes"}}, "MultiSubnetFailovr: use one of"),
        ({**LOGIN, "odbc": {"WSID": "a", "wsid": "b"}}, "WSID is given twice"),
        ({**LOGIN, "odbc": {"Trusted_Connection": "Yes"}}, "leave out user and password"),
        (
            {"odbc": {"Trusted_Connection": "Yes", "Authentication": "ActiveDirectoryMsi"}},
            "one of odbc.Trusted_Connection and odbc.Authentication",
        ),
        ({"odbc": {"Authentication": "ActiveDirectoryInteractive"}}, "prompts a person"),
    ],
)
def test_keywords_that_are_wrong_or_contradict_the_login(options: dict[str, Any], told: str):
    with pytest.raises(ValidationError) as error:
        source(**options)
    assert told in str(problems(error.value, SourceConfig))
    assert "s3cret" not in str(problems(error.value, SourceConfig))


class Storing(Driver):
    """A driver whose server refuses to store a statement."""

    def __init__(self, state: str, number: int) -> None:
        super().__init__(pyodbc.SQL_WVARCHAR, "x".encode("utf-16le"))
        self._error = diagnostics("SQLExecDirectW", (state, "refused", number))
        self.sent: list[str] = []

    def execute(self, sql: str, *_: Any) -> None:
        self.sent.append(sql)
        if sql.startswith("CREATE PROCEDURE"):
            raise self._error


LONG = f"DECLARE @n int = ?; SELECT N'{'x' * connections.LONG_TEXT}' WHERE 1 = @n"


def test_a_statement_that_tempdb_does_not_store_under_snapshot_is_sent_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
):
    driver = Storing("42000", 3952)
    connection = connected(monkeypatch, driver)

    for _ in range(2):
        assert connection.query(LONG, 1) == [("x",)]
    assert [sql.startswith("CREATE") for sql in driver.sent] == [True, False, False]


def test_a_statement_that_lost_while_it_was_stored_is_stored_later(
    monkeypatch: pytest.MonkeyPatch,
):
    driver = Storing("40001", 1205)
    connection = connected(monkeypatch, driver)

    for _ in range(2):
        with pytest.raises(SourceBusy):
            connection.query(LONG, 1)
    assert [sql.startswith("CREATE") for sql in driver.sent] == [True, True]
