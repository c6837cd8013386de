"""The doctor of a lake in S3: it proves the store as a start of the sink does, without Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from tailrace.doctor.findings import Finding, Level
from tailrace.doctor.stores import look_at_lake
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import S3Options
from tests.fix_object_store import SharedStore
from tests.least_options import LEAST
from tests.sink.objects.proxy import Rule, straight, without_bucket
from tests.sink.objects.test_commit_files import accept_every_create

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
