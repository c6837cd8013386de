"""Options: all problems at once, by name, without secrets."""

import pytest

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import TableName
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
    assert config.tables.plain_names() == [r"dbo\.flights"]


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


def source_with(**valve: object) -> dict[str, object]:
    return LEAST | {"source": {**LEAST["source"], "log_valve": valve}}


def test_the_valve_of_the_log_names_tables_in_the_order_in_which_they_go():
    config = PublisherConfig.load(source_with(tables=[r"dbo\.log", r"ops\..*", r"dbo\..*"]))
    names = ("dbo.a", "ops.b", "ops.a", "dbo.log", "hr.x")
    tables = [TableName("db", *name.split(".")) for name in names]

    order = config.source.log_valve.order_of(tables)

    assert [f"{t.schema}.{t.table}" for t in order] == ["dbo.log", "ops.a", "ops.b", "dbo.a"]
    assert config.source_changes == ["source.log_valve"]
    assert PublisherConfig.load(LEAST).source_changes == []


@pytest.mark.parametrize(
    ("valve", "told"),
    [
        ({"at_percent": 80}, "list patterns in log_valve.tables in the order"),
        ({"tables": ["dbo.("]}, "'dbo.(' is not a regular expression"),
        ({"tables": ["dbo.log"], "at_percent": 100}, "source.log_valve.at_percent = 100"),
        ({"tables": ["dbo.log"], "for_s": 0}, "source.log_valve.for_s = 0"),
        ({"table": ["dbo.log"]}, "did you mean tables?"),
    ],
)
def test_a_valve_that_would_do_nothing_or_at_once_is_refused(valve: dict[str, object], told: str):
    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(source_with(**valve))

    assert told in "\n".join(raised.value.problems)
