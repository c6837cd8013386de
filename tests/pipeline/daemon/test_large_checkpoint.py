"""A start reads the checkpoint's topic from its beginning, however long the publisher has run."""

from __future__ import annotations

import time

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.large_checkpoint import commit_often
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

MANY = 200_000
VERY_MANY = 2_000_000
LONGER_S = 20.0  # five on a quiet machine


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY)", "INSERT dbo.orders VALUES (1)"
    )
    pipe.source.enable("orders")
    pipe.source.scan()
    return pipe


def started_s(shop: Pipe) -> float:
    """Publish what there is; gives the seconds until the publisher ran."""
    began = time.monotonic()
    with Running(shop.config()) as publisher:
        publisher.until(lambda: bool(publisher.steps), "it runs")
        took_s = time.monotonic() - began
        publisher.until(shop.is_caught_up, "everything is out")
    return took_s


@pytest.mark.parametrize(
    "records",
    [
        MANY,
        pytest.param(
            VERY_MANY,
            marks=[
                pytest.mark.slow("two million records are produced"),
                pytest.mark.nightly("the same test with fewer records"),
            ],
        ),
    ],
)
def test_a_start_after_many_commits_is_as_fast_as_one_after_a_few(shop: Pipe, records: int):
    started_s(shop)
    began_few_s = started_s(shop)
    commit_often(shop.topics, records)
    assert started_s(shop) < began_few_s + LONGER_S
