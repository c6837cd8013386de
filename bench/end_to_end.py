"""The whole pipeline on real input: the demo's flights, as fast as the source takes them.

Reports the rates of source, topics and lake and the latencies from commit to topic and to lake.
There is no ceiling in the same run that means anything for the whole; the parts have theirs.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--days", type=int, default=1, help="days of flights to replay")
    parser.add_argument(
        "--statement-rate", type=float, default=0.0, help="statements per second; 0: no limit"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the demo without its view, and return its figures.

    Raises:
        DemoFailed: a part of the pipeline did not come to its end.
    """
    from tailrace.demo.run import DemoOptions, conduct

    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        options = DemoOptions(
            days=arguments.days,
            rate=arguments.statement_rate,
            polling_interval_s=1,
            data_dir=Path(folder) / "demo",
            is_in_s3=False,
            svg=None,
        )
        report = conduct(options, Console(file=io.StringIO()))
    figures: dict[str, Any] = {
        "verified": report.verified,
        "events": report.events,
        "cuts": report.cuts,
        "source_statements_per_s": round(report.statements_per_s),
        "events_per_s": round(report.events_per_s),
    }
    for name, latency in (("topic", report.to_topic), ("lake", report.to_lake)):
        if latency is not None:
            figures[f"commit_to_{name}_p50_s"] = round(latency.p50_s, 3)
            figures[f"commit_to_{name}_p99_s"] = round(latency.p99_s, 3)
    return figures
