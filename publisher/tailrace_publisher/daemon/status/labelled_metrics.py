"""The metrics of several parts of a process, served as one, with a label for each part."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector


class LabelledMetrics(Collector):
    """The metrics of all parts.

    Args:
        label: name of the label.

    Attributes:
        parts: the metrics of each, by the label's value, which also orders them.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self.parts: dict[str, Collector] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield every metric once, with the samples of all parts."""
        found: dict[str, Metric] = {}
        for name, part in sorted(self.parts.copy().items()):
            for metric in part.collect():
                known = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    labels = {self._label: name, **sample.labels}
                    known.samples.append(sample._replace(labels=labels))
        yield from found.values()
