"""tedious, the driver of Node.js."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.tests.clients.conftest import Source
from emulator.tests.clients.programs import node_program, report_of


@pytest.fixture(scope="module")
def report(source: Source) -> dict[str, Any]:
    return report_of(node_program(), source, "node_client")


@pytest.mark.parametrize("encrypt", ["off", "on", "strict"])
def test_login(report: dict[str, Any], encrypt: str, source: Source):
    assert report[f"login {encrypt}"] == [source.database, source.user]


def test_wrong_password(report: dict[str, Any]):
    assert report["login wrong"] == {"error": "Login failed for user 'sa'.", "code": "ELOGIN"}


def test_values_go_in_by_parameter_and_come_out_equal(report: dict[str, Any]):
    assert report["round trip"] == {
        "00 bit": True,
        "01 tinyint": 255,
        "02 int": -2147483648,
        "03 bigint": "-9223372036854775808",
        "04 real": 1.5,
        "05 float": -2.25e300,
        "06 decimal(9,4)": 12345.6789,
        "07 varchar(20)": "Grüße",
        "08 nvarchar(20)": "日本 🎉",
        "09 nvarchar(20)": "",
        "10 nvarchar(max)": "日" * 5000,
        "11 varbinary(20)": "0001ff",
        "12 date": "9999-12-31T00:00:00.000Z",
        "13 datetime": "2026-01-02T03:04:05.120Z",
        "14 datetime2(3)": "9999-12-31T23:59:59.999Z",
        "15 datetimeoffset(3)": "2026-01-02T03:04:05.123Z",
        "16 uniqueidentifier": "6F9619FF-8B86-D011-B42D-00C04FC964FF",
        "17 nvarchar(5)": None,
    }


def test_statements(report: dict[str, Any]):
    assert report["prepared"] == [1, 2, 3]
    assert report["procedure"] == [{"b": 42}, 3]
    assert report["removed"] == 1
    assert report["transaction"] == [[2]]


def test_errors_have_their_numbers(report: dict[str, Any]):
    assert (report["duplicate"]["number"], report["duplicate"]["class"]) == (2627, 14)
    assert report["missing"]["number"] == 208
    assert report["missing"]["text"] == "Invalid object name 'dbo.nowhere'."


def test_a_timed_out_query_leaves_the_connection_usable(report: dict[str, Any]):
    assert report["timeout"] == ["ETIMEOUT", [[1]]]


def test_bulk_load(report: dict[str, Any]):
    assert report["bulk"] == [100, [[100, "n99"]]]


def test_reading_a_cdc_function(report: dict[str, Any]):
    assert report["cdc"] == [[2, 1, "één"], [2, 2, "zwei"], [4, 1, "Один"], [1, 2, "zwei"]]
