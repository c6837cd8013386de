"""``doctor`` and ``status`` of a lake in S3, without Spark; the doctor proves the store."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from tailrace.doctor.findings import Finding, Level
from tailrace.doctor.stores import look_at_lake
from tailrace.lag.stages import StageUnavailable, lake_stage
from tailrace.reading.store_failure import PATIENCE
from tailrace.settings.settings import Settings
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import S3Options
from tests.fix_object_store import SharedStore
from tests.least_options import LEAST
from tests.sink.objects.proxy import Pass, Request, Rule, straight, without_bucket
from tests.sink.objects.test_commit_files import accept_every_create


class Silence:
    """Answers nothing until it is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, _request: Request, _pass_on: Pass) -> None:
        assert self.over.wait(60), "the client ended before"


SHARED = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}


def look(s3: dict[str, Any]) -> Finding:
    (finding,) = look_at_lake(SinkConfig.load({**SHARED, "lake": "s3://lake/doctor", "s3": s3}))
    return finding


@pytest.mark.parametrize(
    ("rule", "level", "told"),
    [
        (straight, Level.OK, "the store refused the second create"),
        (accept_every_create, Level.PROBLEM, "accepted a second create of one object"),
    ],
)
def test_an_object_is_created_twice_and_deleted(
    store: SharedStore, rule: Rule, level: Level, told: str
):
    store.proxy.rule = rule
    finding = look(store.through_proxy)

    assert finding.level is level
    assert told in finding.text
    assert [one.is_conditional for one in store.proxy.seen if one.method == "PUT"] == [True, True]
    files = S3FileSystem(**S3Options.model_validate(store.options).pyarrow())
    left = files.get_file_info(FileSelector("lake/doctor/_tailrace", allow_not_found=True))
    assert left == [], "the object is deleted"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endpoint": "http://127.0.0.1:1"}, "127.0.0.1:1 does not answer (Connection refused)"),
        ({"access_key": "nobody"}, "refused the request (InvalidAccessKeyId: "),
        ({"secret_key_file": "/not/there"}, "reading its options failed"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(
    store: SharedStore, options: dict[str, str], told: str
):
    finding = look(store.options | options)
    assert finding.level is Level.PROBLEM
    assert told in finding.text
    assert "\n" not in finding.text
    assert finding.fix is not None


def test_a_role_is_not_checked_and_said_so():
    finding = look({"role": "arn:aws:iam::123456789012:role/lake"})
    assert finding.level is Level.WARNING
    assert "cannot assume sink.s3.role" in finding.text
    assert finding.fix is not None


def test_a_bucket_that_is_not_there_is_named(store: SharedStore):
    """SeaweedFS creates it, so the proxy answers as AWS does."""
    store.proxy.rule = without_bucket
    finding = look(store.through_proxy)
    assert (finding.level, "has no bucket lake" in finding.text) == (Level.PROBLEM, True)
    assert finding.fix is not None
    assert "sink.lake" in finding.fix.text


@pytest.mark.parametrize(
    ("options", "rule", "told"),
    [
        (
            {"endpoint": "http://127.0.0.1:1"},
            straight,
            "(Connection refused). Fix: check sink.s3.e",
        ),
        (
            {"access_key": "nobody"},
            straight,
            "InvalidAccessKeyId: .* Fix: check sink.s3.access_key",
        ),
        ({}, without_bucket, "has no bucket lake. Fix: create the bucket, or correct sink.lake"),
        ({}, Silence(), "does not answer (operation timed out). Fix: check sink.s3.endpoint"),
    ],
)
def test_status_names_it_as_well(
    store: SharedStore,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    rule: Rule,
    told: str,
):
    monkeypatch.setitem(PATIENCE, "timeout", "1s")
    monkeypatch.setitem(PATIENCE, "max_retries", "0")
    store.proxy.rule = rule
    s3 = store.through_proxy | options
    pattern = r".*".join(map(re.escape, told.split(".*")))
    try:
        with pytest.raises(StageUnavailable, match=pattern):
            lake_stage(Settings({}, {**SHARED, "lake": "s3://lake/status", "s3": s3}))
    finally:
        if isinstance(rule, Silence):
            rule.over.set()
