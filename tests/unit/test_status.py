import socket
import time

import pytest
from click.testing import CliRunner

from tailrace.cli import cli
from tailrace.status import Stage, lag_s


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
    assert f"no broker answers at 127.0.0.1:{port}" in result.output
    assert "check kafka.bootstrap" in result.output
    assert "Traceback" not in result.output
