import socket
import time

import pytest
from click.testing import CliRunner

from tailrace.cli.root import cli
from tailrace.lag.stages import Stage, lag_s
from tailrace.lag.status import TableLag, _completeness, _lags
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.position.lsn import Lsn


@pytest.mark.parametrize(
    ("newest_lsn", "newest_ms", "stage", "expected"),
    [
        ("b", 5000, None, None),
        (None, None, Stage("a", 1000), 0.0),
        ("b", 5000, Stage("b", 5000), 0.0),
        ("b", 5000, Stage("c", 9000), 0.0),
        ("b", 5000, Stage("a", 1500), 3.5),
        ("b", None, Stage("a", 1500), None),
    ],
)
def test_lag_is_the_time_from_what_is_out_to_the_newest_change(
    newest_lsn, newest_ms, stage, expected
):
    assert lag_s(newest_lsn, newest_ms, stage) == expected


def test_an_idle_database_is_complete_however_old_its_last_commit_is():
    idle = TableLag("dbo.a", "b", "b", 0.0, None, None)
    stopped = TableLag("dbo.b", "c", "b", 9.0, None, None, in_cut=False)
    late = TableLag("dbo.c", "c", "b", 4.0, None, None)
    assert _completeness([idle, stopped], 240.0).startswith("The topics have every captured change")
    assert _completeness([idle, late], 240.0).endswith("complete up to 240 s ago.")


def test_a_part_that_does_not_answer_is_named_with_its_option(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # nobody listens there once it is closed
    config = tmp_path / "tailrace.yaml"
    config.write_text(
        f"""
kafka: {{bootstrap: "127.0.0.1:{port}", start_timeout_s: 1}}
registry: {{url: "http://127.0.0.1:{port}"}}
prefix: p
publisher:
  source: {{host: 127.0.0.1, port: {port}, database: d, user: u, password: p, login_timeout_s: 1}}
"""
    )

    began = time.monotonic()
    result = CliRunner().invoke(cli, ["status", "--config", str(config)])
    assert time.monotonic() - began < 8  # the option is heeded: its default alone is 10

    assert result.exit_code == 1
    assert f"Kafka at 127.0.0.1:{port} does not answer" in result.output
    assert "check kafka.bootstrap" in result.output
    assert "Traceback" not in result.output


def test_a_table_with_two_capture_instances_is_one_row(module_emulator):
    server = module_emulator
    server.create_database("TwoInstances")
    enable = "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @capture_instance = ?"
    with server.connect("TwoInstances") as connection:
        connection.execute("EXEC sys.sp_cdc_enable_db")
        connection.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
        connection.execute(enable, "older")
        connection.execute("INSERT dbo.t VALUES (1)")
        server.scan(connection)
        connection.execute(enable, "newer")
        connection.execute("INSERT dbo.t VALUES (2)")
        server.scan(connection)
        newest = connection.execute("SELECT MAX(__$start_lsn) FROM cdc.newer_CT").fetchval()
    config = PublisherConfig.model_validate(
        {
            "prefix": "p",
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "registry": {"url": "http://127.0.0.1:1"},
            "source": {
                "host": "127.0.0.1",
                "port": server.port,
                "database": "TwoInstances",
                "user": server.user,
                "password": server.password,
                "trust_server_certificate": True,
            },
        }
    )

    (lag,) = _lags(config, None, None)

    assert (lag.table, lag.newest_lsn) == ("dbo.t", str(Lsn.from_bytes(newest)))

    # A table that is not in the lake is not up to date there, wherever the lake stands.
    for tables, there in ((frozenset[str](), None), (frozenset({"TwoInstances/dbo/t"}), 0.0)):
        (lag,) = _lags(config, None, Stage(str(Lsn.from_bytes(newest)), 1, tables=tables))
        assert lag.lake_lag_s == there
        assert (lag.lake_lsn is None) == (there is None)
