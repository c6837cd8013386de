import socket
import sys
import time

import pytest
import structlog

from tailrace.doctor.findings import Level
from tailrace.doctor.traces import look_at_traces
from tailrace_service.options.sections import problems
from tailrace_service.tracing.export import TracingUnavailable, open_traces
from tailrace_service.tracing.options import TracingConfig
from tailrace_service.tracing.traces import ROOT, Span, TraceKey
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import Position, SinkState
from tailrace_sink.watch.traces import SinkTraces
from tests.unit.sink.plan.progress_records import NAMES, TOPIC, lsn, record

KEY = TraceKey("p", "shop", 0, lsn(7))


def keys(count: int) -> list[TraceKey]:
    return [TraceKey("p", "shop", 0, lsn(number)) for number in range(count)]


def test_every_part_of_the_key_makes_another_trace():
    others = [
        TraceKey("q", "shop", 0, lsn(7)),
        TraceKey("p", "shops", 0, lsn(7)),
        TraceKey("p", "shop", 1, lsn(7)),
        TraceKey("p", "shop", 0, lsn(8)),
    ]
    assert len({key.trace_id for key in (KEY, *others)}) == 5
    assert KEY.trace_id == TraceKey("p", "shop", 0, lsn(7)).trace_id
    assert len({KEY.span_id(name) for name in (ROOT, "log", "fold")}) == 3


def test_a_share_of_the_keys_is_sampled_and_a_smaller_share_is_a_part_of_it():
    found = {ratio: {k for k in keys(4000) if k.is_sampled(ratio)} for ratio in (0, 0.05, 0.2, 1)}
    assert [len(found[0]), len(found[1])] == [0, 4000]
    assert 120 < len(found[0.05]) < 280
    assert found[0.05] < found[0.2]


def test_nothing_is_opened_without_an_endpoint():
    assert open_traces(TracingConfig(), "tailrace-sink") is None


def test_a_collector_that_does_not_answer_costs_its_spans_and_little_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
        port = silent.getsockname()[1]
        config = TracingConfig(endpoint=f"http://127.0.0.1:{port}/v1/traces", timeout_s=0.2)
        traces = open_traces(config, "tailrace-sink")
        assert traces is not None
        traces.send(KEY, Span("log", 1000, 2000, {}))
        began = time.monotonic()
        traces.close()
        assert time.monotonic() - began < 3


def test_missing_packages_are_named_with_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "tailrace_service.tracing.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    with pytest.raises(TracingUnavailable, match=r"tailrace\[tracing\]"):
        open_traces(TracingConfig(endpoint="http://127.0.0.1:1/v1/traces"), "tailrace-sink")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endpoint": "collector:4317"}, "endpoint = 'collector:4317': write the whole"),
        ({"endpoint": "http://me:secret@collector/v1/traces"}, "put them into headers"),
        ({"endpoint": "http://c/v1/traces", "ca_file": "/ca.pem"}, "needs an https endpoint"),
        ({"headers": {"a": "secret"}, "headers_files": {"a": "/f"}}, "give a in one of"),
        ({"headers": {"a": ["secret"]}}, "headers.a: "),
        ({"ratio": 2}, "ratio = 2"),
    ],
)
def test_wrong_options_are_told_without_their_secrets(options, told):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - pydantic's
        TracingConfig.model_validate(options)
    (problem,) = problems(refused.value, TracingConfig)
    assert told in problem
    assert "secret" not in problem


def test_files_that_cannot_be_read_are_named(tmp_path):
    endpoint = "https://127.0.0.1:1/v1/traces"
    for options, told in (
        ({"ca_file": tmp_path / "none.pem"}, "tracing.ca_file: there is no file"),
        ({"headers_files": {"api-key": tmp_path / "none"}}, "tracing.headers_files.api-key"),
    ):
        with pytest.raises(TracingUnavailable, match=told):
            open_traces(TracingConfig.model_validate({"endpoint": endpoint, **options}), "s")


def test_the_doctor_says_whether_the_collector_takes_spans(collector, tmp_path):
    def found(**options) -> list[tuple[Level, str]]:
        config = TracingConfig.model_validate({"timeout_s": 1, **options})
        return [(finding.level, finding.text) for finding in look_at_traces(config)]

    assert found() == []
    assert found(endpoint=collector.endpoint) == [(Level.OK, "takes spans")]
    ((level, text),) = found(endpoint=f"{collector.endpoint}/elsewhere")
    assert (level, text) == (Level.WARNING, "refuses: 404 Not Found")
    ((level, text),) = found(endpoint="http://127.0.0.1:1/v1/traces")
    assert (level, text.startswith("does not answer: ")) == (Level.WARNING, True)
    for wrong in ({"ca_file": "/no/ca.pem"}, {"headers_files": {"key": str(tmp_path / "no")}}):
        ((level, text),) = found(endpoint="https://127.0.0.1:1/v1/traces", **wrong)
        assert (level, text.startswith("tracing cannot be used: ")) == (Level.PROBLEM, True)


def test_the_sink_sends_a_span_for_each_kafka_transaction_that_closes_an_lsn(collector, tmp_path):
    secret = tmp_path / "key"
    secret.write_text("the key\n")
    config = SinkConfig.load(
        {
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "registry": {"url": "http://127.0.0.1:1"},
            "prefix": NAMES.prefix,
            "lake": "/lake",
            "tracing": {
                "endpoint": collector.endpoint,
                "ratio": 1,
                "headers": {"x-tenant": "shop"},
                "headers_files": {"api-key": str(secret)},
            },
        }
    )
    records = [
        record(0, 0, 5, (TOPIC, 0, 2)),
        record(1, 5, 5, (TOPIC, 2, 4), closed=False),  # inside a large source transaction
        record(2, 5, 7, (TOPIC, 4, 5)),
        record(3, 7, 7),  # a heartbeat
        record(4, 7, 8),  # nothing of ours was committed
        record(5, 8, 9, (TOPIC, 5, 6)),
    ]
    with structlog.testing.capture_logs():
        traces = SinkTraces(config)
    traces.logged(records, 3, 10.0, 10.5)
    traces.folded(records, SinkState(batch=4, position=Position(0, 3, lsn(7))), 11.0, 12.0)
    traces.close()

    sent = {(span.name, span.attributes["tailrace.closed_lsn"]) for span in collector.spans}
    assert sent == {*(("log", lsn(n)) for n in (5, 7, 9)), *(("fold", lsn(n)) for n in (5, 7))}
    (log,) = [s for s in collector.spans if (s.name, s.trace_id) == ("log", KEY.trace_id)]
    assert (log.service, log.parent_id) == ("tailrace-sink", KEY.span_id(ROOT))
    assert (log.began_ns, log.ended_ns) == (10_000_000_000, 10_500_000_000)
    assert (log.attributes["tailrace.batch"], log.attributes["db.namespace"]) == (3, "shop")
    told = {name.lower(): value for name, value in collector.headers[0].items()}
    assert (told["x-tenant"], told["api-key"]) == ("shop", "the key")
