"""The publisher's spans, beside a server, brokers, a registry and a collector."""

from __future__ import annotations

import time

import pytest

from tailrace_service.tracing.traces import ROOT, TraceKey
from tests.fix_collector import Collector
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def test_a_trace_goes_from_the_commit_to_the_topics(pipe: Pipe, collector: Collector):
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))")
    pipe.source.enable("orders")
    options = {"endpoint": collector.endpoint, "ratio": 1}
    with Running(pipe.config(tracing=options, linger_ms=0)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        for number in range(3):
            pipe.source.execute(f"INSERT dbo.orders VALUES ({number}, N'a')")
            publisher.until(pipe.is_caught_up, "the change is out")
    ended_ns = time.time_ns()

    closing = [
        progress
        for progress in pipe.topics.progress()
        if progress["closed"] and progress["through_lsn"] != progress["after_lsn"]
        if any(part["count"] > part["operations"]["reads"] for part in progress["partitions"])
    ]
    assert len(closing) >= 3
    traces = collector.traces()
    assert len(traces) == len(closing)
    for progress in closing:
        key = TraceKey(pipe.topics.prefix, pipe.source.name, 0, progress["through_lsn"])
        spans = traces[key.trace_id]
        assert spans.keys() == {ROOT, "capture", "read", "commit"}
        root = spans[ROOT]
        assert (root.service, root.span_id, root.parent_id) == (
            "tailrace-publisher",
            key.span_id(ROOT),
            0,
        )
        events = sum(part["count"] for part in progress["partitions"])
        assert root.attributes["tailrace.events"] == events
        assert root.attributes["tailrace.topics"] == [pipe.topic("orders")]
        assert root.attributes["db.namespace"] == pipe.source.name
        below = [span for name, span in spans.items() if name != ROOT]
        assert {span.parent_id for span in below} == {root.span_id}
        # One after another, from the commit to the end of the Kafka transaction.
        assert spans["capture"].began_ns == root.began_ns
        assert spans["capture"].ended_ns == spans["read"].began_ns
        assert spans["read"].ended_ns == spans["commit"].began_ns
        assert spans["commit"].ended_ns == root.ended_ns <= ended_ns
    began = {trace_id: spans[ROOT].began_ns // 1_000_000 for trace_id, spans in traces.items()}
    for event in pipe.topics.changes(pipe.source.name, "orders"):
        source = event.as_envelope["source"]
        key = TraceKey(pipe.topics.prefix, pipe.source.name, 0, source["commit_lsn"])
        assert began[key.trace_id] == source["ts_ms"]
