"""A lake is read where PySpark cannot be imported."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OLD_LAKE = ROOT / "tests" / "sink" / "daemon" / "lake-0.1.tar.gz"
PROGRAM = """
import sys

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j"}:
            raise ImportError(name)

sys.meta_path.insert(0, NoSpark())
from tailrace import lake

cut = lake.open(sys.argv[1]).as_of("latest")
lines = sorted(cut.read("dbo.lines")["line"].to_pylist())
titles = cut.sql("SELECT title FROM dbo.keyed ORDER BY id").fetchall()
print(cut.closed_lsn, lines, [title for title, in titles])
print(cut.lazy_frame("dbo.keyed").collect().height, len(cut.pandas("dbo.keyed")))
assert not {"pyspark", "py4j"} & sys.modules.keys()
"""


def test_a_lake_is_read_without_pyspark(tmp_path: Path):
    """Deletion vectors, mapped and widened columns: the last need DuckDB's extension."""
    for name in ("duckdb", "duckdb_extensions", "polars", "pandas"):
        pytest.importorskip(name)
    with tarfile.open(OLD_LAKE) as archive:
        archive.extractall(tmp_path, filter="data")
    packages = ("schemas", "service", "publisher", "spark_sink", "compose", ".")
    path = ":".join(str(ROOT / package) for package in packages)
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")],
        env={"PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    cut, frames = found.stdout.splitlines()
    titles = ["row 0", "renamed", "row 3", "row 4", "row 5", "ten"]
    assert cut == f"00000001:00000008:0001 ['one', 'two'] {titles}"
    assert frames == "6 6"
