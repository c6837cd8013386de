"""A session whose connections are at different replicas says so.

The connections are stand-ins: the embedded server is one server.
"""

from typing import Any, cast

from structlog.testing import capture_logs

from tailrace_publisher.daemon.session.wiring import warn_of_two_servers
from tailrace_publisher.ports import Connection


class At:
    def __init__(self, name: str) -> None:
        self._name = name

    def query(self, sql: str) -> list[Any]:
        assert sql == "SELECT @@SERVERNAME"
        return [(self._name,)]


def told(control: str, bulk: str) -> list[Any]:
    with capture_logs() as logs:
        warn_of_two_servers(cast(Connection, At(control)), cast(Connection, At(bulk)))
    return logs


def test_two_replicas_are_a_warning_that_names_both():
    (warning,) = told("SQL1", "SQL2")

    assert (warning["event"], warning["log_level"]) == (
        "connections_at_different_servers",
        "warning",
    )
    assert (warning["control"], warning["bulk"]) == ("SQL1", "SQL2")


def test_one_server_is_nothing_to_tell():
    assert told("SQL1", "SQL1") == []
