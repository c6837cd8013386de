"""Options: all problems at once, by name, without secrets."""

import pytest
from pydantic import ValidationError

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.skipped_changes import SkipConfig
from tailrace_publisher.options.tables import CapturedTables, SchemaChange, templates_of
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tests.least_options import LEAST


def test_the_least_configuration_is_enough():
    config = PublisherConfig.load(LEAST)

    assert config.server_name == "air"
    assert config.tables.selects(TableName("db", "dbo", "anything"))


def test_every_wrong_option_is_told_at_once():
    wrong = LEAST | {
        "source": {"host": "h", "port": 70000, "database": "db", "user": "u", "password": "s3cret"},
        "kafka": {"bootstrap": "b", "extra": {"acks": "0"}},
        "page_row": 5,
        "linger_ms": -1,
    }

    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(wrong)

    told = "\n".join(raised.value.problems)
    assert len(raised.value.problems) == 4
    for part in ("source.port = 70000", "kafka.extra: remove acks", "page_row ", "linger_ms = -1"):
        assert part in told
    assert "s3cret" not in told


def test_a_value_where_more_belongs_is_told_in_words_of_the_file():
    wrong = LEAST | {"kafka": "b:9092", "message_keys": "id", "tables": {"include": "dbo.*"}}

    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(wrong)

    assert sorted(raised.value.problems) == [
        "kafka = 'b:9092': it is a section: write its options below it, each as name: value",
        "message_keys = 'id': write what belongs to it below it, each as name: value",
        "tables.include = 'dbo.*': write a list, as in [one, two]",
    ]


def test_a_password_is_given_once():
    source = {"host": "h", "database": "db", "user": "u"}

    with pytest.raises(ConfigError, match="exactly one"):
        PublisherConfig.load(LEAST | {"source": source})


def test_tables_are_chosen_by_whole_names():
    config = PublisherConfig.load(
        LEAST | {"tables": {"include": [r"dbo\.flights", r"ops\..*"], "exclude": [r"ops\.log"]}}
    )

    assert config.tables.selects(TableName("db", "DBO", "Flights"))
    assert not config.tables.selects(TableName("db", "dbo", "flights2"))
    assert config.tables.selects(TableName("db", "ops", "crew"))
    assert not config.tables.selects(TableName("db", "ops", "log"))


@pytest.mark.parametrize(
    "name",
    ["Cust$Ledger", "a+b", "what?", "x[1]", "c^d", "100%|50%", "Sales (LCY)", "star*", "{1}", "t "],
)
def test_an_entry_means_the_table_that_is_spelled_like_it(name: str):
    table = TableName("db", "dbo", name)
    entry = f"dbo.{name}"

    assert CapturedTables(include=[entry]).selects(table)
    assert not CapturedTables(exclude=[entry]).selects(table)
    assert (
        CapturedTables(schema_changes={entry: SchemaChange.FAIL}).schema_change_of(table)
        is SchemaChange.FAIL
    )
    assert SkipConfig(operations={entry: ["d"]}).operations_of(table) == {"d"}
    topics = TopicNames("p", templates_of({entry: "{prefix}-x.{database}.{schema}.{table}"}))
    assert topics.data(table).startswith("p-x.")
    given = PublisherConfig.load(LEAST | {"lossless_columns": {entry: ["at"]}})
    assert given.lossless_of(table) == ["at"]


def test_a_name_that_is_no_pattern_says_how_it_becomes_one():
    with pytest.raises(ValidationError, match="backslash before each character"):
        CapturedTables(include=["dbo.(x"])


def test_options_of_names_that_differ_in_case_go_for_the_one_that_is_spelled_so():
    config = PublisherConfig.load(
        LEAST | {"lossless_columns": {"dbo.orders": ["a"], "dbo.Orders": ["b"]}}
    )

    assert config.lossless_of(TableName("db", "dbo", "orders")) == ["a"]
    assert config.lossless_of(TableName("db", "dbo", "Orders")) == ["b"]
    assert config.lossless_of(TableName("db", "dbo", "ORDERS")) == ["a"]


def test_nothing_under_kafka_extra_is_ever_shown():
    extra = {"sasl.password": "s3cret", "sasl.username": ["not", "text"]}

    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(LEAST | {"kafka": {"bootstrap": "b", "extra": extra}})
    assert "s3cret" not in str(raised.value)

    kafka = {"bootstrap": "b", "extra": {"sasl.password": "s3cret"}}
    config = PublisherConfig.load(LEAST | {"kafka": kafka})
    assert "s3cret" not in repr(config)
    assert config.kafka.librdkafka_options() == {"sasl.password": "s3cret"}


def test_the_transaction_timeout_is_an_option_and_is_not_overridden_in_silence():
    kafka = {"bootstrap": "b", "transaction_timeout_s": 60}
    assert PublisherConfig.load(LEAST | {"kafka": kafka}).kafka.transaction_timeout_s == 60
    extra = {"bootstrap": "b", "extra": {"transaction.timeout.ms": "1000"}}
    with pytest.raises(ConfigError, match=r"it is the option kafka\.transaction_timeout_s"):
        PublisherConfig.load(LEAST | {"kafka": extra})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"chunk_rows": 0}, "snapshot.chunk_rows = 0"),
        ({"chunk_mb": 0}, "snapshot.chunk_mb = 0"),
        ({"chunk_mb": 4097, "memory_mb": 5000}, "snapshot.chunk_mb = 4097"),
        ({"memory_mb": 1_000_001}, "snapshot.memory_mb = 1000001"),
        ({"memory_mb": 31}, "chunk_mb = 32 is above memory_mb = 31"),
        ({"tables_at_once": 0}, "snapshot.tables_at_once = 0"),
        ({"tables_at_once": 33}, "snapshot.tables_at_once = 33"),
        ({"lock_timeout_s": 0.05}, "snapshot.lock_timeout_s = 0.05"),
        ({"lock_timeout_s": 301}, "snapshot.lock_timeout_s = 301"),
        ({"isolation": "snapshot"}, "'auto' or 'read_committed'"),
    ],
)
def test_options_of_snapshots_have_bounds(options: dict[str, object], told: str):
    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(LEAST | {"snapshot": options})
    (problem,) = raised.value.problems
    assert told in problem


def test_a_snapshot_is_bounded_by_default():
    snapshot = PublisherConfig.load(LEAST).snapshot

    assert (snapshot.chunk_rows, snapshot.chunk_bytes) == (50_000, 32_000_000)
    assert (snapshot.memory_bytes, snapshot.tables_at_once) == (256_000_000, 2)
    assert snapshot.lock_timeout_s == 5.0


def test_flat_events_have_no_place_for_transactions():
    assert PublisherConfig.load(LEAST).event_form == "debezium"
    assert PublisherConfig.load(LEAST | {"event_form": "flat"}).event_form == "flat"
    with pytest.raises(ConfigError, match=r"transaction_metadata: true .* event_form: flat"):
        PublisherConfig.load(LEAST | {"event_form": "flat", "transaction_metadata": True})
    with pytest.raises(ConfigError, match="event_form"):
        PublisherConfig.load(LEAST | {"event_form": "json"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"serialization": "protobuf"}, "serialization"),
        ({"event_form": "cloudevents"}, "cloudevents .* is avro. Fix: set .*: json"),
        ({"json_decimals": "text"}, "json_decimals: text .* serialization is avro"),
        (
            {"serialization": "json", "connect_types": True},
            "connect_types: true .* json always states these types. Fix: remove connect_types",
        ),
        (
            {"serialization": "json", "event_form": "flat", "transaction_metadata": True},
            "transaction_metadata: true .* event_form: flat",
        ),
    ],
)
def test_serializations_that_contradict_other_options_are_refused_by_name(
    given: dict[str, object], told: str
) -> None:
    assert PublisherConfig.load(LEAST).serialization == "avro"
    with pytest.raises(ConfigError, match=told):
        PublisherConfig.load(LEAST | given)


def test_the_valve_of_the_log_that_was_removed_is_refused_with_what_to_do_instead() -> None:
    options = LEAST | {"source": {**LEAST["source"], "log_valve": {"tables": [r"dbo\.log"]}}}

    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(options)

    (told,) = raised.value.problems
    assert told.startswith("source: log_valve was removed")
    assert "Fix: remove it" in told
    assert "docs/runbooks/LogFillsUp.md" in told
    assert PublisherConfig.load(LEAST).source_changes == []
