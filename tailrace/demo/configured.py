"""The demo's configuration file and a program that queries its lake; both stay in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tailrace.demo.database import DATABASE
from tailrace.local.stack import stack_config
from tailrace_compose.local.java import SPARK_QUICK_START

PREFIX: Final = "air"
QUERY: Final = (
    "SELECT origin, count(*) AS flights, round(avg(dep_delay), 1) AS delay"
    " FROM dbo.flights GROUP BY origin ORDER BY origin"
)
"""By the names that the lake's tables have in the demo's catalog."""
_PROGRAM: Final = '''"""Queries the demo's lake by its tables' names: query.py "SELECT ..."."""

import sys
from pathlib import Path

from tailrace.reading.lake_session import configured_session
from tailrace.settings.load import load

config = load(Path(__file__).with_name("tailrace.yaml"), {}).sink()
configured_session(config).sql(sys.argv[1]).show(truncate=False)
'''


def config_path(data_dir: Path) -> Path:
    """Where the file is."""
    return data_dir / "tailrace.yaml"


def query_path(data_dir: Path) -> Path:
    """Where the program is."""
    return data_dir / "query.py"


def write_config(data_dir: Path) -> Path:
    """Write both for a stack that is started; return the path of the configuration."""
    config: dict[str, Any] = stack_config(data_dir, prefix=PREFIX, database=DATABASE)
    config["publisher"] |= {"poll_interval_ms": 100, "heartbeat_s": 2}
    # A column that flights get in the middle of the day arrives without an operator.
    config["publisher"]["tables"] = {"schema_change": "rotate"}
    # A sink that runs for minutes gains more from a fast start than from the last compiler.
    config["sink"]["spark"] = {"spark.driver.extraJavaOptions": SPARK_QUICK_START}
    config["sink"]["catalog"] = {"kind": "hive", "metastore": str(data_dir / "metastore")}
    query_path(data_dir).write_text(_PROGRAM, encoding="utf-8")
    path = config_path(data_dir)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path
