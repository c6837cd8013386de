"""What a step costs: figures that a busy machine does not change, and seconds to look at."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from bench.processor import processor_s
from tailrace_sink.spark.jvm_names import jvm_of

GROWTH_MAX = 2.0
"""A cost that grows with the number of cuts grows further than this in the tests that use it."""


class Cost(NamedTuple):
    """What a step took of this process and all that it started.

    Attributes:
        jobs: of Spark.
        read_bytes: bytes that Hadoop read from files.
    """

    jobs: int
    read_bytes: int
    processor_s: float
    clock_s: float


def cost_of(spark: SparkSession, step: Callable[[], object]) -> Cost:
    """Measure a step."""
    before = _spent(spark)
    step()
    return Cost(*(after - of for of, after in zip(before, _spent(spark), strict=True)))


def _spent(spark: SparkSession) -> Cost:
    """Return what was spent up to now."""
    statistics = jvm_of(spark).org.apache.hadoop.fs.FileSystem.getAllStatistics()
    read_bytes = sum(one.getBytesRead() for one in statistics)
    jobs = spark._jsc.sc().dagScheduler().numTotalJobs()
    return Cost(jobs, read_bytes, processor_s([os.getpid()]), time.monotonic())


def check_flat(costs: Mapping[int, Mapping[str, Cost]]) -> None:
    """The costs after the most cuts are at most GROWTH_MAX times those after the fewest."""
    first, last = costs[min(costs)], costs[max(costs)]
    for name, cost in first.items():
        assert last[name].jobs <= GROWTH_MAX * cost.jobs, (name, costs)
        assert last[name].read_bytes <= GROWTH_MAX * cost.read_bytes, (name, costs)


def as_figures(costs: Mapping[int, Mapping[str, Cost]]) -> dict[int, dict[str, object]]:
    """Costs by number of cuts and name of the step, for JSON."""
    return {
        cuts: {
            name: {field: round(value, 2) for field, value in cost._asdict().items()}
            for name, cost in of.items()
        }
        for cuts, of in costs.items()
    }
