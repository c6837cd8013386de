"""FreeTDS: its command line, which is also what many scripts use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.tests.clients.conftest import Source

LIMIT_S = 60


@pytest.fixture
def tsql(source: Source, tmp_path: Path) -> Callable[..., str]:
    """Runs a script through `tsql`; returns what it printed, errors included."""
    program = shutil.which("tsql")
    if program is None:
        pytest.skip("FreeTDS's tsql is not installed here (Debian: freetds-bin)")

    def run(
        script: str, *, encryption: str = "off", version: str = "7.4", password: str = ""
    ) -> str:
        settings = tmp_path / "freetds.conf"
        settings.write_text(
            f"[embedded]\nhost = 127.0.0.1\nport = {source.port}\ntds version = {version}\n"
            f"encryption = {encryption}\nclient charset = UTF-8\n"
        )
        command = [program, "-S", "embedded", "-D", source.database, "-o", "fhq"]
        command += ["-U", source.user, "-P", password or source.password]
        ended = subprocess.run(
            command,
            input=script + "\nGO\n",
            env=dict(os.environ, FREETDSCONF=str(settings), LC_ALL="C.UTF-8"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return ended.stdout

    return run


@pytest.mark.parametrize("encryption", ["off", "request", "require"])
def test_login(tsql: Callable[..., str], source: Source, encryption: str):
    found = tsql("SELECT DB_NAME(), SUSER_SNAME()", encryption=encryption)
    assert found == f"{source.database}\t{source.user}\n"


def test_wrong_password(tsql: Callable[..., str]):
    assert "Login failed for user 'sa'." in tsql("SELECT 1", password="wrong")
    assert "Msg 18456" in tsql("SELECT 1", password="wrong")


@pytest.mark.parametrize("version", ["7.2", "7.3", "7.4"])
def test_protocol_versions(tsql: Callable[..., str], version: str):
    assert tsql("SELECT CAST(1 AS bigint), N'日本'", version=version) == "1\t日本\n"


def test_values(tsql: Callable[..., str]):
    found = tsql(
        "SELECT CAST(1 AS bit), CAST(255 AS tinyint), CAST(-9223372036854775808 AS bigint),"
        " CAST(1.5 AS decimal(38, 10)), CAST(2.5 AS money), N'日本 🎉',"
        " CAST('Grüße' AS varchar(20)), 0x0001FF,"
        " CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier),"
        " CAST(NULL AS int)"
    )
    assert found.rstrip("\n").split("\t") == [
        *("1", "255", "-9223372036854775808", "1.5000000000", "2.5000"),
        *("日本 🎉", "Grüße", "0001ff", "6F9619FF-8B86-D011-B42D-00C04FC964FF", "NULL"),
    ]


def test_several_batches_and_a_rollback(tsql: Callable[..., str], table: str):
    found = tsql(
        f"CREATE TABLE {table} (id int PRIMARY KEY)\nGO\n"
        f"BEGIN TRAN; INSERT INTO {table} VALUES (1)\nGO\nROLLBACK\nGO\n"
        f"INSERT INTO {table} VALUES (2)\nGO\nSELECT id FROM {table}"
    )
    assert found == "2\n"


def test_errors_have_their_numbers(tsql: Callable[..., str]):
    found = tsql("SELECT * FROM dbo.nowhere\nGO\nRAISERROR(N'ours', 16, 3)\nGO\nSELECT 1")
    assert "Msg 208 " in found
    assert "Invalid object name 'dbo.nowhere'." in found
    assert "Msg 50000 " in found
    assert found.endswith("1\n")


def test_reading_a_cdc_function(tsql: Callable[..., str]):
    found = tsql(
        "SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("
        "sys.fn_cdc_get_min_lsn('dbo_Tracked'), sys.fn_cdc_get_max_lsn(), N'all')"
    )
    rows = [tuple(line.split("\t")) for line in found.splitlines()]
    assert rows == [("2", "1", "één"), ("2", "2", "zwei"), ("4", "1", "Один"), ("1", "2", "zwei")]
