"""go-mssqldb, the driver of Go's database/sql."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.tests.clients.conftest import Source
from emulator.tests.clients.programs import go_program, report_of


@pytest.fixture(scope="module")
def report(source: Source) -> dict[str, Any]:
    return report_of(go_program(), source, "go_client")


@pytest.mark.parametrize("encrypt", ["disable", "true", "strict"])
def test_login(report: dict[str, Any], encrypt: str, source: Source):
    assert report[f"login {encrypt}"] == [source.database, source.user]


def test_wrong_password(report: dict[str, Any]):
    assert report["login wrong"]["number"] == 18456
    assert report["login wrong"]["text"] == "login error: Login failed for user 'sa'."


def test_values_go_in_by_parameter_and_come_out_equal(report: dict[str, Any]):
    assert report["round trip"] == {
        "00 bit": True,
        "01 tinyint": 255,
        "02 int": -2147483648,
        "03 bigint": -9223372036854775808,
        "04 float": -2.25e300,
        "05 real": 1.5,
        "06 varchar(20)": "abc",
        "07 nvarchar(20)": "日本 🎉",
        "08 nvarchar(20)": "",
        "09 nvarchar(max)": "日",
        "10 varbinary(20)": "0001ff",
        "11 datetime2(7)": "9999-12-31T23:59:59.9999999Z",
        "12 datetimeoffset(7)": "2026-01-02T03:04:05.1234567+05:30",
        "13 decimal(38,10)": "1234567890123456789012345678.0123456789",
        "14 nvarchar(5)": None,
    }


def test_statements(report: dict[str, Any]):
    assert report["prepared"] == [1, 2, 3]
    assert report["procedure"] == [42, 3]
    assert report["transaction"] == [[2]]


def test_errors_have_their_numbers(report: dict[str, Any]):
    assert (report["duplicate"]["number"], report["duplicate"]["class"]) == (2627, 14)
    assert report["missing"]["number"] == 208
    assert report["missing"]["text"] == "Invalid object name 'dbo.nowhere'."


def test_a_cancelled_query_leaves_the_connection_usable(report: dict[str, Any]):
    assert report["timeout"] == [True, [[1]]]


def test_bulk_copy(report: dict[str, Any]):
    assert report["bulk"] == [[100, "n99"]]


def test_a_table_as_parameter(report: dict[str, Any]):
    assert report["table"] == [
        [2, None, "2027-01-02 03:04:05.0000006 +00:00"],
        [1, "één", "2026-01-02 03:04:05.0000006 +00:00"],
    ]


def test_reading_a_cdc_function(report: dict[str, Any]):
    assert report["cdc"] == [[2, 1, "één"], [2, 2, "zwei"], [4, 1, "Один"], [1, 2, "zwei"]]
