"""What a subscriber imports: with nothing but the packages of the extra ``client``."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[4]
ALONE = """
import sys
from importlib.abc import MetaPathFinder

class Refuses(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Refuses())
import tailrace.subscribe
print(len(tailrace.subscribe.__all__))
"""
OURS = ("tailrace_publisher", "tailrace_sink", "tailrace_emulator", "tailrace_compose")


def test_it_imports_neither_spark_nor_the_publisher():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(one for extra in extras.values() for one in extra)]
    packages = {re.split(r"[\[=<>!~; ]", one)[0].replace("-", "_") for one in named}
    imports = {"pyyaml": "yaml", "mssql_python_odbc": "mssql_python"}
    refused = {imports.get(name, name) for name in packages}
    refused -= {"tailrace", "confluent_kafka", "fastavro", "httpx"}
    assert {"pyspark", "pyodbc", "pydantic", "click", "numpy", "structlog"} <= refused
    done = subprocess.run(
        [sys.executable, "-c", f"REFUSED = {sorted({*refused, *OURS})!r}\n{ALONE}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": ":".join(str(ROOT / part) for part in (".", "schemas", "service"))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
