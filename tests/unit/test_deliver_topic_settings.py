"""What new topics get, and which settings of the checkpoint topic are refused."""

import pytest

from tailrace_publisher.deliver.topic_settings import (
    BrokerDefaults,
    check_keeps_newest,
    new_topic_durability,
)
from tailrace_publisher.errors import CheckpointForgets


@pytest.mark.parametrize(
    ("configured", "defaults", "factor", "in_sync"),
    [
        (None, BrokerDefaults(1, 1), 1, None),
        (None, BrokerDefaults(2, 1), 2, None),
        (None, BrokerDefaults(3, 1), 3, "2"),
        (None, BrokerDefaults(5, 3), 5, None),
        (None, BrokerDefaults(), -1, None),
        (3, BrokerDefaults(1, 1), 3, "2"),
        (3, BrokerDefaults(), 3, "2"),
        (1, BrokerDefaults(3, 2), 1, None),
    ],
)
def test_new_topics_get_as_many_copies_as_there_may_be_and_two_in_sync_of_three(
    configured: int | None, defaults: BrokerDefaults, factor: int, in_sync: str | None
):
    settings = {} if in_sync is None else {"min.insync.replicas": in_sync}
    assert new_topic_durability(configured, defaults) == (factor, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "delete", "retention.ms": "604800000"},
        {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
        {"cleanup.policy": "compact,delete", "retention.ms": "604800000"},
        {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000"},
    ],
)
def test_a_checkpoint_topic_that_forgets_is_refused(settings: dict[str, str]):
    with pytest.raises(CheckpointForgets, match=r"p\.offsets .*cleanup\.policy=compact"):
        check_keeps_newest("p.offsets", settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "compact", "retention.ms": "604800000"},
        {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"},
    ],
)
def test_one_that_keeps_the_newest_of_every_key_is_taken(settings: dict[str, str]):
    check_keeps_newest("p.offsets", settings)
