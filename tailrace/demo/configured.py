"""The demo's configuration file, which stays in its data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tailrace.demo.database import DATABASE
from tailrace.local.stack import stack_config
from tailrace_compose.local.java import SPARK_QUICK_START

PREFIX: Final = "air"


def config_path(data_dir: Path) -> Path:
    """Where the file is."""
    return data_dir / "tailrace.yaml"


def write_config(data_dir: Path) -> Path:
    """Write it for a stack that is started."""
    config: dict[str, Any] = stack_config(data_dir, prefix=PREFIX, database=DATABASE)
    config["publisher"] |= {"poll_interval_ms": 100, "heartbeat_s": 2}
    # A sink that runs for minutes gains more from a fast start than from the last compiler.
    config["sink"]["spark"] = {"spark.driver.extraJavaOptions": SPARK_QUICK_START}
    path = config_path(data_dir)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path
