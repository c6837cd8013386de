"""Several databases in one configuration: what each has, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tailrace.cli.root import cli
from tailrace.settings.load import load
from tailrace.settings.settings import Settings, SettingsError
from tailrace.web.run import publisher_of
from tailrace_publisher.daemon.process.separate_databases import problems_of
from tailrace_publisher.options.publisher_config import PublisherConfig

FILE: dict[str, Any] = {
    "prefix": "shop",
    "kafka": {"bootstrap": "k:9092", "extra": {"client.rack": "a"}},
    "registry": {"url": "http://r:8081"},
    "publisher": {
        "source": {"host": "db", "user": "cdc", "password": "p", "port": 1444},
        "metrics_port": 9101,
        "tables": {"exclude": ["dbo.audit"]},
    },
    "sink": {"lake": "/lake/", "checkpoint_location": "/spark"},
    "databases": {
        "Orders": None,
        "Crm [EU]": {
            "publisher": {"source": {"host": "other"}, "tables": {"include": ["dbo.*"]}},
            "sink": {"lake": "/crm"},
            "prefix": "crm",
            "kafka": {"extra": {"client.rack": "b"}},
        },
    },
}


def settings_of(
    tmp_path: Path, options: dict[str, Any], *flags: str, **environment: str
) -> Settings:
    path = tmp_path / "tailrace.yaml"
    path.write_text(yaml.safe_dump(options, sort_keys=False))
    return load(path, environment, flags)


def test_each_has_what_all_have_but_what_it_says_itself(tmp_path: Path):
    settings = settings_of(tmp_path, FILE)
    orders, crm = settings.publishers().values()
    assert (orders.prefix, orders.source.database, orders.source.host) == (
        "shop.Orders",
        "Orders",
        "db",
    )
    assert (crm.prefix, crm.source.database, crm.source.host, crm.source.port) == (
        "crm",
        "Crm [EU]",
        "other",
        1444,
    )
    assert (crm.tables.include, crm.tables.exclude) == (["dbo.*"], ["dbo.audit"])
    assert crm.kafka.extra["client.rack"].get_secret_value() == "b"
    sinks = [one.sink() for one in settings.databases.values()]
    assert [(one.prefix, one.lake) for one in sinks] == [
        ("shop.Orders", "/lake/Orders"),
        ("crm", "/crm"),
    ]
    assert sinks[0].checkpoint_location == "/spark/Orders"
    assert sinks[1].checkpoint_location == "/spark/Crm_x0020__x005B_EU_x005D_"


def test_environment_and_flags_name_a_database_in_any_case(tmp_path: Path):
    settings = settings_of(
        tmp_path,
        FILE,
        "databases.orders.publisher.page_rows=7",
        TAILRACE__DATABASES__ORDERS__PUBLISHER__SOURCE__PASSWORD="0123",
    )
    orders = settings.publishers()["Orders"]
    assert (orders.page_rows, orders.source.read_password()) == (7, "0123")
    assert list(settings.databases) == ["Orders", "Crm [EU]"]


@pytest.mark.parametrize(
    ("databases", "said"),
    [
        ([], "databases: a mapping from names"),
        ({"A": None, "a": None}, "databases.a and databases.A differ in case only"),
        ({"A": {"publishr": {}}}, "databases.A.publishr is not a section: did you"),
        ({"A": []}, "databases.A: a mapping is expected"),
        ({1: None}, "put it into quotes"),
        (
            {"A": {"publisher": {"metrics_port": 1}}},
            "databases.A.publisher.metrics_port: there is one endpoint for all databases",
        ),
        ({"A": None, "B": {"sink": {"lake": "/lake/A"}}}, "databases.B.sink.lake and that of A"),
        ({"A": {"publisher": {"page_rows": 0}}}, "databases.A.publisher.page_rows = 0"),
        ({"A": {"prefix": "x"}, "B": {"prefix": "x"}}, "A and B have the same prefix, x"),
        ({"A": {"prefix": "x"}, "B": {"prefix": "x.y"}}, "one begins with the other and a dot"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, databases: Any, said: str):
    with pytest.raises(SettingsError) as caught:
        settings_of(tmp_path, {**FILE, "databases": databases}).publishers()
    assert said in str(caught.value)


def test_endpoints_that_differ_are_refused(tmp_path: Path):
    settings = settings_of(tmp_path, FILE)
    configs = settings.publishers()
    other = PublisherConfig.load(
        {**settings.databases["Orders"].publisher_options, "metrics_port": 1, "prefix": "z"}
    )
    (problem,) = problems_of({"one": configs["Orders"], "two": other})
    assert "differ in metrics_port" in problem


def test_the_page_of_one_asks_where_the_publisher_has_it(tmp_path: Path):
    databases = settings_of(tmp_path, FILE).databases.values()
    assert [getattr(publisher_of(one), "url", None) for one in databases] == [
        "http://127.0.0.1:9101/databases/Orders",
        "http://127.0.0.1:9101/databases/Crm_x0020__x005B_EU_x005D_",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there are several databases. Fix: --database Orders|Crm [EU]"),
        (["--database", "Hr"], "--database Hr: the configuration has Orders, Crm [EU]"),
    ],
)
def test_a_command_of_one_database_asks_which(tmp_path: Path, arguments: list[str], said: str):
    settings_of(tmp_path, FILE)
    file = str(tmp_path / "tailrace.yaml")
    result = CliRunner().invoke(cli, ["audit", "--config", file, *arguments])
    assert (result.exit_code, said in result.output) == (2, True)


def test_a_database_is_chosen_in_any_case(tmp_path: Path):
    broken = {"Orders": {"publisher": {"page_rows": 0}}, "Crm": None}
    settings_of(tmp_path, {**FILE, "databases": broken})
    file = str(tmp_path / "tailrace.yaml")
    result = CliRunner().invoke(cli, ["audit", "--config", file, "--database", "ORDERS"])
    assert result.exit_code == 2
    assert "databases.Orders.publisher.page_rows = 0" in result.output
