import pytest

from tailrace.settings.load import load
from tailrace.settings.settings import SettingsError
from tailrace_publisher.errors import ConfigError as PublisherError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_sink.errors import ConfigError as SinkError
from tailrace_sink.options.config import SinkConfig

FILE = """
prefix: air
kafka: {bootstrap: "127.0.0.1:9092"}
registry: {url: "http://127.0.0.1:8081"}
publisher:
  source: {host: db, database: Airline, user: sa, password: from-file}
  page_rows: 100
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tailrace.yaml"
    path.write_text(FILE)
    return path


def test_shared_options_are_defaults_of_the_section(file):
    config = load(file, {}).publisher()

    assert config.kafka.bootstrap == "127.0.0.1:9092"
    assert config.prefix == "air"
    assert config.page_rows == 100


def test_environment_overrides_the_file_and_flags_override_both(file):
    environment = {
        "TAILRACE__PUBLISHER__PAGE_ROWS": "200",
        "TAILRACE__PUBLISHER__SOURCE__PORT": "1444",
    }

    config = load(file, environment, ["publisher.page_rows=300"]).publisher()

    assert config.page_rows == 300
    assert config.source.port == 1444


def test_a_password_from_the_environment_stays_text_and_is_never_shown(file):
    config = load(file, {"TAILRACE__PUBLISHER__SOURCE__PASSWORD": "0123"}).publisher()

    assert config.source.read_password() == "0123"
    assert "0123" not in repr(config)


def test_all_wrong_options_are_reported_together_by_their_path(file):
    settings = load(file, {}, ["publisher.page_rows=0", "publisher.source.prot=1"])

    with pytest.raises(SettingsError) as caught:
        settings.check()

    text = str(caught.value)
    assert "publisher.page_rows = 0" in text
    assert "publisher.source.prot is not an option: did you mean port?" in text


def test_faults_of_all_sections_are_in_one_answer_each_once(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(
        """
kafak: {bootstrap: "127.0.0.1:9092"}
registry: {ulr: "http://127.0.0.1:8081", url: "http://127.0.0.1:8081"}
prefix: air
publisher:
  source: {host: db, database: Airline, user: sa, password: p, prot: 1}
sink: {lake: /lake, checkpoint_locaton: /c}
"""
    )
    with pytest.raises(SettingsError) as caught:
        load(path, {}, ["publisher.page_rows"])
    assert caught.value.problems == (
        "--set publisher.page_rows: write it as option.path=value",
        "kafak is not a section: did you mean kafka?",
        "registry.ulr is not an option: did you mean url?",
        "publisher.source.prot is not an option: did you mean port?",
        "sink.checkpoint_locaton is not an option: did you mean checkpoint_location?",
    )


def test_faults_of_one_section_do_not_wait_for_the_other_ones_command(file):
    settings = load(file, {}, ["sink.lake=/lake", "sink.lak=1", "publisher.page_rows=0"])
    for checked in (settings.publisher, settings.sink, settings.check):
        with pytest.raises(SettingsError) as caught:
            checked()
        options = [problem.split()[0] for problem in caught.value.problems]
        assert options == ["publisher.page_rows", "sink.lak"]


def test_a_fault_of_every_database_is_named_once(file):
    flags = [
        "databases.Crm.publisher=5",
        "databases.Orders.publisher.page_rows=0",
        "sink.lake=/lake",
        "databases.Shop={}",
        "kafka.bootstrapp=x",
    ]
    with pytest.raises(SettingsError) as caught:
        load(file, {}, flags)
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "databases.Crm.publisher",
        "kafka.bootstrapp",
        "databases.Orders.publisher.page_rows",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1, 2]", "is not a mapping. Fix: give it the sections publisher and sink"),
        ("publisher: {", "is not YAML"),
        ("publishr: {}", "publishr is not a section: did you mean publisher?"),
        ("publishr: {}\nkafak: {}", "kafak is not a section: did you mean kafka?"),
        ("publishr: {}\n1: {}", "1 is not a section: the sections are publisher, sink"),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, content, told):
    path = tmp_path / "wrong.yaml"
    path.write_text(content)

    with pytest.raises(SettingsError, match=r"wrong\.yaml|publishr") as caught:
        load(path, {})

    assert told in str(caught.value)


def test_a_missing_file_and_a_flag_without_value_are_named(tmp_path):
    with pytest.raises(SettingsError, match=r"does not exist\. Fix: tailrace init"):
        load(tmp_path / "none.yaml", {})
    with pytest.raises(SettingsError, match=r"option\.path=value"):
        load(None, {}, ["publisher.page_rows"])


@pytest.mark.parametrize(
    ("registry", "told"),
    [
        ({"user": "u"}, "user needs exactly one of password"),
        ({"password": "s3cret"}, "password and password_file need user"),
        ({"user": "u", "password": "s3cret", "token": "t0ken"}, "one of user, token"),
        ({"token": "t0ken", "token_file": "f"}, "one of user, token"),
        ({"client_key": "k"}, "need client_certificate"),
        ({"url": "http://r", "ca_file": "f"}, "need an https url"),
    ],
)
def test_ways_into_a_registry_that_contradict_each_other(registry, told):
    options = {"registry": {"url": "https://r", **registry}, "prefix": "p"}
    source = {"host": "h", "database": "d", "user": "u", "password": "p"}
    options |= {"kafka": {"bootstrap": "b:1"}}
    for load_it in (
        lambda: PublisherConfig.load({**options, "source": source}),
        lambda: SinkConfig.load({**options, "lake": "/lake"}),
    ):
        with pytest.raises((PublisherError, SinkError), match=told) as error:
            load_it()
        assert "s3cret" not in str(error.value)
        assert "t0ken" not in str(error.value)


def test_names_with_dots_are_one_part_of_a_path(file):
    environment = {"TAILRACE__KAFKA__EXTRA__SASL_PASSWORD": "0123"}
    flags = [
        "kafka.extra.security.protocol=SASL_SSL",
        "publisher.message_keys.dbo.Orders=[id]",
        "publisher.kafka.topic_settings.retention.ms=1000",
    ]
    config = load(file, environment, flags).publisher()
    assert config.kafka.librdkafka_options() == {
        "sasl.password": "0123",
        "security.protocol": "SASL_SSL",
    }
    assert config.message_keys == {"dbo.Orders": ["id"]}
    assert config.kafka.topic_settings == {"retention.ms": "1000"}


def test_secrets_of_kafka_come_from_files(file, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("pa55\n")
    flags = [f"kafka.extra_files.sasl.password={secret}", "sink.lake=/lake"]
    settings = load(file, {}, flags)
    assert settings.publisher().kafka.connection()["sasl.password"] == "pa55"
    assert settings.sink().kafka.further_options() == {"sasl.password": "pa55"}
    assert "pa55" not in repr(settings.publisher())

    secret.unlink()
    with pytest.raises(PublisherError, match=r"kafka\.extra_files\.sasl\.password .* readable"):
        settings.publisher().kafka.connection()
    with pytest.raises(SettingsError, match=r"sasl\.password in one of extra and extra_files"):
        load(file, {}, [*flags, "kafka.extra.sasl.password=x"]).publisher()
    with pytest.raises(SettingsError, match="remove acks"):
        load(file, {}, ["kafka.extra_files.acks=/f"]).publisher()
