import pytest

from tailrace.settings import SettingsError, load

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
    assert "publisher.source.prot is not an option" in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1, 2]", "a mapping with the sections publisher and sink is expected"),
        ("publisher: {", "is not YAML"),
        ("publishr: {}", "publishr is not a section"),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, content, told):
    path = tmp_path / "wrong.yaml"
    path.write_text(content)

    with pytest.raises(SettingsError, match=r"wrong\.yaml|publishr") as caught:
        load(path, {})

    assert told in str(caught.value)


def test_a_missing_file_and_a_flag_without_value_are_named(tmp_path):
    with pytest.raises(SettingsError, match="name an existing file"):
        load(tmp_path / "none.yaml", {})
    with pytest.raises(SettingsError, match=r"option\.path=value"):
        load(None, {}, ["publisher.page_rows"])
