"""docs/metrics.md, generated from the collectors that count, so that the two cannot differ.

``python -m tailrace.reference.metrics docs/metrics.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics import MetricWrapperBase

_HEAD: Final = """# Metrics

What /metrics of the daemons answers (`metrics_port` of each), for Prometheus. Dashboard and alerts
are in [compose/monitoring](../compose/monitoring/alerts.yml); each alert has a
[runbook](runbooks/PublisherGone.md).

This page is generated: `python -m tailrace.reference.metrics docs/metrics.md`.
"""
_COLUMNS: Final = "| metric | kind | labels | what it says |\n|---|---|---|---|"


def document() -> str:
    """The page's text."""
    from tailrace.verify.metrics import VerifyMetrics
    from tailrace_publisher.metrics.publisher_metrics import Metrics
    from tailrace_sink.watch.metrics import SinkMetrics

    parts = [_HEAD]
    programs = (
        ("publisher", Metrics().registry),
        ("sink", SinkMetrics().registry),
        ("verify --continuous", VerifyMetrics().registry),
    )
    for program, registry in programs:
        lines = "\n".join(sorted(_lines(registry)))
        parts.append(f"## {program}\n\n{_COLUMNS}\n{lines}\n")
    return "\n".join(parts)


def _lines(registry: CollectorRegistry) -> Iterator[str]:
    collectors = {id(c): c for c in registry._names_to_collectors.values()}  # noqa: SLF001 - no list
    for collector in collectors.values():
        if isinstance(collector, MetricWrapperBase):
            name, kind, text = collector._name, collector._type, collector._documentation  # noqa: SLF001 - as above
            labels = ", ".join(f"`{label}`" for label in collector._labelnames)  # noqa: SLF001 - as above
            shown = f"{name}_total" if isinstance(collector, Counter) else name
            yield f"| `{shown}` | {kind} | {labels} | {' '.join(text.split())} |"
        else:
            for metric in collector.collect():
                text = " ".join(metric.documentation.split())
                yield f"| `{metric.name}` | {metric.type} | | {text} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all metrics.")
    parser.add_argument("page", type=Path, help="docs/metrics.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
