"""A lake is read where PySpark cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tailrace import lake
from tailrace.lake.duck import rows_over
from tailrace_sink.errors import ChangesUnknown, ConfigError
from tailrace_sink.reading.cut_errors import CutUnknown, PointInvalid
from tests.archives import unpack

ROOT = Path(__file__).parents[3]
OLD_LAKE = ROOT / "tests" / "sink" / "daemon" / "lake-0.1.tar.gz"
PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from tailrace import lake

cut = lake.open(sys.argv[1]).as_of("latest")
lines = sorted(cut.read("dbo.lines")["line"].to_pylist())
titles = cut.sql("SELECT title FROM dbo.keyed ORDER BY id").fetchall()
print(cut.closed_lsn, lines, [title for title, in titles])
print(cut.lazy_frame("dbo.keyed").collect().height, len(cut.pandas("dbo.keyed")))
assert not {"pyspark", "py4j"} & sys.modules.keys()
"""


@pytest.fixture
def old_lake(tmp_path: Path) -> str:
    unpack(OLD_LAKE, tmp_path)
    return str(tmp_path / "lake")


def run(program: str, old_lake: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """Run a program where some packages cannot be imported.

    From a file: in ``python -c`` DuckDB prints a progress bar if a query takes two seconds.
    """
    file = Path(old_lake).parent / "program.py"
    file.write_text(program, "utf-8")
    packages = ("schemas", "service", "publisher", "spark_sink", "compose", ".")
    path = ":".join(str(ROOT / package) for package in packages)
    return subprocess.run(
        [sys.executable, str(file), old_lake, *missing],
        env={"PYTHONPATH": path, "HOME": str(Path(old_lake).parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_lake_is_read_without_pyspark(old_lake: str):
    """Deletion vectors, mapped and widened columns: the last need DuckDB's extension."""
    for name in ("duckdb", "duckdb_extensions", "polars", "pandas"):
        pytest.importorskip(name)
    found = run(PROGRAM, old_lake, "pyspark", "py4j")
    assert found.returncode == 0, found.stderr
    cut, frames = found.stdout.splitlines()
    titles = ["row 0", "renamed", "row 3", "row 4", "row 5", "ten"]
    assert cut == f"00000001:00000008:0001 ['one', 'two'] {titles}"
    assert frames == "6 6"


def test_the_extra_brings_all_that_is_imported(old_lake: str):
    """With no package of other extras, as after pip install 'tailrace[lake]'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        name: {re.split(r"[\[=<>!~; ]", one)[0].replace("-", "_") for one in listed}
        for name, listed in project["optional-dependencies"].items()
    }
    others = set().union(*extras.values()) - extras["lake"] - {"tailrace"}
    # deltalake's and Python's own; rich and click are imported by httpx, if they are there.
    others = {{"pyyaml": "yaml"}.get(name, name) for name in others} - {"setuptools"}
    assert {"pyspark", "structlog", "click", "yaml"} <= others
    found = run(PROGRAM, old_lake, "py4j", *sorted(others))
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("missing", ["deltalake", "polars", "pandas", "pydantic"])
def test_a_package_that_is_missing_is_named_with_its_extra(old_lake: str, missing: str):
    pytest.importorskip(missing)
    found = run(PROGRAM, old_lake, missing)
    fix = f"ExtraMissing: {missing} is not installed. Fix: pip install 'tailrace[lake]'"
    assert found.stderr.splitlines()[-1] == f"tailrace.lake.errors.{fix}"


def test_a_lake_in_iceberg_names_the_extra_that_reads_it(old_lake: str):
    names = {"catalog": "tailrace", "namespace": "shop"}
    Path(old_lake, "_tailrace", "format").write_text(json.dumps(names), "utf-8")
    found = run(PROGRAM, old_lake, "pyiceberg")
    fix = "ExtraMissing: pyiceberg is not installed. Fix: pip install 'tailrace[iceberg]'"
    assert found.stderr.splitlines()[-1] == f"tailrace.lake.errors.{fix}"


@pytest.mark.parametrize("missing", ["duckdb", "duckdb_extensions"])
def test_a_feature_that_nothing_reads_is_named_with_the_fix(old_lake: str, missing: str):
    pytest.importorskip("duckdb_extensions")
    found = run(PROGRAM.replace("dbo.lines", "dbo.keyed"), old_lake, "pyspark", "py4j", missing)
    assert found.returncode == 1
    error = found.stderr.splitlines()[-1]
    assert error.startswith("tailrace.lake.errors.FeatureUnsupported: table shop.dbo.keyed at")
    assert "typeWidening" in error
    assert "Fix: install DuckDB's delta extension" in error


@pytest.mark.parametrize(
    ("address", "options", "told"),
    [
        ("abfss://lake@store/shop", {}, "only Hadoop opens abfss://. Fix: read it with Spark"),
        ("", {}, "address is empty. Fix:"),
        ("/srv/lake", {"region": "us-east-1"}, "options of a store need an address at s3://"),
        ("s3://lake/shop", {"acces_key": "a"}, "acces_key"),
        ("s3://lake/shop", {"access_key": "a"}, "give access_key and secret_key"),
    ],
)
def test_wrong_options_are_named(address: str, options: dict[str, str], told: str):
    with pytest.raises(ConfigError, match=told):
        lake.open(address, **options)


def test_a_folder_that_is_no_lake_says_so(tmp_path: Path):
    with pytest.raises(CutUnknown, match=r"is not a lake of Tailrace.*Fix: use the address in"):
        lake.open(tmp_path).as_of("latest")
    with pytest.raises(ChangesUnknown, match=r"has no log.*Fix: use the address in sink\.lake"):
        lake.open(str(tmp_path)).changes("dbo.t")


def test_tables_and_cuts_that_are_not_there_are_named(old_lake: str):
    opened = lake.open(old_lake)
    with pytest.raises(CutUnknown, match=r"dbo\.line is not in the cut .*Near names: dbo\.lines"):
        opened.as_of("latest").read("dbo.line")
    with pytest.raises(CutUnknown, match=r"no cut at or before LSN .*Fix: choose a later one"):
        opened.as_of(lsn="00000000:00000000:0001")
    with pytest.raises(PointInvalid, match="Fix: write as_of"):
        opened.as_of("newest")
    cut = opened.as_of("latest")
    with pytest.raises(CutUnknown, match=r"has no history .*Fix: add history to its sink\.kinds"):
        cut.read("dbo.lines", is_history=True)
    with pytest.raises(CutUnknown, match=r"two tables\. Fix: read one"):
        cut.read("dbo.lines", is_history=True, is_changes=True)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (" ", r"the statement is empty\. Fix: write a SELECT$"),
        ("SELEC 1", r'syntax error at or near "SELEC"\. Fix: correct the statement$'),
        (
            "SELECT * FROM dbo.kept",
            r'of the cut: dbo\.keyed, dbo\."keyed\.changes"',
        ),
        ("SELECT * FROM lines", r"does not exist.* Fix: use a table of the cut"),
        ("SELECT what FROM dbo.lines", r"what.* Fix: .*DESCRIBE schema\.table"),
        ("SELECT CAST(line AS int) FROM dbo.lines", r"'(one|two)'.* Fix: .*TRY_CAST$"),
    ],
)
def test_statements_that_duckdb_refuses_are_one_sentence(old_lake: str, statement: str, told: str):
    pytest.importorskip("duckdb")
    with pytest.raises(lake.QueryFailed, match=told) as error:
        rows_over(lake.open(old_lake).as_of("latest"), statement)
    assert "\n" not in str(error.value)


def test_a_closed_connection_says_so(old_lake: str):
    duckdb = pytest.importorskip("duckdb")
    closed = duckdb.connect()
    closed.close()
    with pytest.raises(lake.QueryFailed, match="Fix: pass a connection that is open"):
        lake.open(old_lake).as_of("latest").sql("SELECT line FROM dbo.lines", closed)
