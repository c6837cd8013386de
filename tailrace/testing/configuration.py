"""The configuration of a pipeline that tests start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_emulator.testing.source import CdcSource

SPARK: Final[Mapping[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SPARK_QUICK_START,
}


def source_options(source: CdcSource, database: str, folder: Path) -> dict[str, Any]:
    """Return the source's options, with its password in a file of the folder."""
    password_file = folder / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(source.password)
    return {
        "host": source.host,
        "port": source.port,
        "database": database,
        "user": source.user,
        "password_file": str(password_file),
        "trust_server_certificate": True,
    }


def write_configuration(
    folder: Path,
    addresses: Mapping[str, Any],
    publisher: Mapping[str, Any],
    sink: Mapping[str, Any],
) -> Path:
    """Write ``tailrace.yaml``.

    Args:
        addresses: prefix, Kafka, registry, source and lake, at their places in the file.
        publisher: overrides what suits tests; ``sink`` likewise.
    """
    options = {
        **addresses,
        "publisher": {
            **addresses["publisher"],
            "poll_interval_ms": 50,
            "heartbeat_s": 1,
            **publisher,
        },
        "sink": {
            **addresses["sink"],
            # Tables that every Delta reader can open: a test's lake is read without Spark.
            "profile": "compatible",
            "spark": dict(SPARK),
            **sink,
        },
    }
    path = folder / "tailrace.yaml"
    path.write_text(yaml.safe_dump(options, sort_keys=False))
    return path
