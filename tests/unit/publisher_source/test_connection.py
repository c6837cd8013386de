"""Quoting, and what the driver's text form of datetimeoffset becomes."""

import struct
from types import SimpleNamespace
from typing import Any

import pyodbc
import pytest

from tailrace_publisher.config import SourceConfig
from tailrace_publisher.errors import SourceError
from tailrace_publisher.source import connection as connections
from tailrace_publisher.source.connection import (
    Connection,
    connection_string,
    datetimeoffset_text,
    quote_name,
    quote_text,
)


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


def connected(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> Connection:
    module = SimpleNamespace(
        Error=pyodbc.Error, SQL_CHAR=1, SQL_WCHAR=-8, connect=lambda *_, **__: driver
    )
    monkeypatch.setattr(connections, "load_pyodbc", lambda: module)
    monkeypatch.setattr(connections, "find_driver", lambda _: "driver")
    return Connection(
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
