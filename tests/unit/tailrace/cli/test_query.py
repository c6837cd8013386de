"""``tailrace query`` over a lake that an earlier release wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tailrace.cli.root import cli
from tests.archives import unpack
from tests.least_options import LEAST

OLD_LAKE = Path(__file__).parents[4] / "tests" / "sink" / "daemon" / "lake-0.1.tar.gz"
SECOND = "00000001:00000006:0001"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("duckdb_extensions")
    monkeypatch.setenv("HOME", str(tmp_path))  # DuckDB installs its extension there
    unpack(OLD_LAKE, tmp_path)
    file = tmp_path / "tailrace.yaml"
    shared = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}
    file.write_text(yaml.safe_dump({**shared, "sink": {"lake": str(tmp_path / "lake")}}))

    def query(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["query", *arguments, "--config", str(file)])

    return query


def test_the_newest_cut_and_an_older_one(run):
    newest = run("--json", "SELECT k.id, l.line FROM dbo.keyed k, dbo.lines l WHERE k.id = 10")
    rows = [json.loads(line) for line in newest.stdout.splitlines()]
    assert sorted(row["line"] for row in rows) == ["one", "two"]
    older = run("--lsn", SECOND, "SELECT title FROM dbo.keyed WHERE id IN (1, 10)")
    assert "renamed" in older.stdout
    assert "ten" not in older.stdout
    assert older.stderr == f"The cut at LSN {SECOND}.\n"
    changes = run("--json", 'SELECT count(*) AS n FROM dbo."keyed.changes"')
    assert json.loads(changes.stdout) == {"n": 9}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("SELECT * FROM dbo.kept",), 'of the cut: dbo.keyed, dbo."keyed.changes"'),
        (("SELECT FROM",), "Fix: correct the statement"),
        (("SELECT CAST(line AS int) FROM dbo.lines",), "TRY_CAST"),
        (("--lsn", "00000000:00000000:0001", "SELECT 1"), "has no cut at or before LSN"),
        (("--time", "soon", "SELECT 1"), "'soon' is not a time"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(run, arguments, told):
    found = run(*arguments)
    assert found.exit_code == 1
    assert told in found.stderr
    assert "Traceback" not in found.output
