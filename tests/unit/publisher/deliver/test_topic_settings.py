"""What new topics get, and which settings of the checkpoint topic are refused."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from tailrace_publisher.deliver.topic_settings import (
    BrokerDefaults,
    check_retains_newest,
    new_topic_durability,
    progress_settings,
    retention_needless,
    warn_of_durability,
    warn_of_retention,
)
from tailrace_publisher.errors import CheckpointRetentionTooShort
from tailrace_publisher.options.kafka import KafkaConfig

DAY_MS = 86_400_000


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
    with pytest.raises(CheckpointRetentionTooShort, match=r"p\.offsets .*cleanup\.policy=compact"):
        check_retains_newest("p.offsets", settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "compact", "retention.ms": "604800000"},
        {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"},
    ],
)
def test_one_that_keeps_the_newest_of_every_key_is_taken(settings: dict[str, str]):
    check_retains_newest("p.offsets", settings)


def test_topics_that_a_lost_disk_takes_away_are_told():
    settings = {
        "lax": {"min.insync.replicas": "1"},
        "safe": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
        "two": {"unclean.leader.election.enable": "true"},
        "alone": {"unclean.leader.election.enable": "true"},
    }
    with capture_logs() as events:
        warn_of_durability({"alone": 1, "two": 2, "lax": 3, "safe": 3, "not visible": 3}, settings)
    assert [(e["event"], e["topic"]) for e in events] == [
        ("topic_has_one_copy", "alone"),
        ("topic_min_insync_too_low", "lax"),
        ("topic_allows_unclean_election", "two"),
    ]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, str(30 * DAY_MS)),
        ({"progress_retention_days": 7}, str(7 * DAY_MS)),
        ({"progress_retention_days": None}, "-1"),
        ({"topic_settings": {"retention.ms": str(DAY_MS)}}, str(30 * DAY_MS)),
        ({"topic_settings": {"retention.ms": str(90 * DAY_MS)}}, str(90 * DAY_MS)),
        ({"topic_settings": {"retention.ms": "-1"}}, "-1"),
        (
            {"topic_rules": {"dbo.a": {"settings": {"retention.ms": str(40 * DAY_MS)}}}},
            str(40 * DAY_MS),
        ),
        (
            {
                "allow_compaction": True,
                "topic_rules": {"dbo.a": {"settings": {"cleanup.policy": "compact"}}},
            },
            "-1",
        ),
    ],
)
def test_a_new_progress_topic_is_bounded_but_kept_as_long_as_any_data(
    options: dict[str, Any], kept: str
):
    kafka = KafkaConfig.model_validate({"bootstrap": "b:1", **options})
    assert progress_settings(kafka) == {
        "cleanup.policy": "delete",
        "retention.ms": kept,
        "retention.bytes": "-1",
    }


def test_a_progress_topic_that_is_kept_for_ever_beside_bounded_data_is_told():
    forever, week = {"retention.ms": "-1"}, {"retention.ms": str(7 * DAY_MS)}
    assert retention_needless(forever, [week]) == str(30 * DAY_MS)
    assert retention_needless(forever, [week, {"retention.ms": str(40 * DAY_MS)}]) == str(
        40 * DAY_MS
    )
    assert retention_needless(forever, [week, forever]) is None
    assert retention_needless(forever, []) is None
    assert retention_needless(week, [week]) is None


def test_a_progress_topic_that_forgets_is_told():
    data = {"a": {"retention.ms": "-1"}}
    with capture_logs() as events:
        warn_of_retention("p.progress", {"retention.ms": "-1", "retention.bytes": "-1"}, data)
        warn_of_retention("p.progress", {}, data)
        warn_of_retention("p.progress", {"retention.ms": "604800000"}, {})
        warn_of_retention(
            "p.progress", {"retention.ms": "604800000", "retention.bytes": "-1"}, data
        )
    (told,) = events
    assert told["event"] == "progress_retention_too_short"
    assert told["settings"] == {"retention.ms": "604800000"}


def test_a_progress_topic_may_forget_what_no_data_topic_has_any_more():
    week, day = {"retention.ms": "604800000"}, {"retention.ms": "86400000"}
    with capture_logs() as events:
        warn_of_retention("p.progress", week, {"a": day, "b": week})
        warn_of_retention("p.progress", day, {"a": day, "b": week})
        warn_of_retention("p.progress", week, {"a": day, "b": {"retention.ms": "-1"}})
        warn_of_retention("p.progress", week, {"a": {**day, "cleanup.policy": "compact"}})
        warn_of_retention("p.progress", {**week, "retention.bytes": "1000"}, {"a": day})
    assert [event["settings"] for event in events] == [
        day,
        week,
        week,
        {**week, "retention.bytes": "1000"},
    ]
    assert "retention.ms=604800000," in events[0]["fix"]
    assert "retention.ms=-1," in events[1]["fix"]
