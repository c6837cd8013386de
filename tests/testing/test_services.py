"""Broker and registry of a session's pipelines: begun at once, stopped whenever the tests end."""

from pathlib import Path

import pytest

from tailrace.testing.services import Services


@pytest.mark.kafka
def test_a_session_that_ends_during_their_start_leaves_no_process(tmp_path):
    services = Services(tmp_path).start()
    services.stop()
    assert processes_over(tmp_path) == []


def test_given_addresses_are_used_and_nothing_is_started(tmp_path):
    lines: list[str] = []
    services = Services(tmp_path, "kafka:9092", "http://registry", lines.append).start()
    assert (services.bootstrap_servers, services.registry_url) == ("kafka:9092", "http://registry")
    services.stop()
    assert list(tmp_path.iterdir()) == []
    assert lines == []


def processes_over(folder: Path) -> list[str]:
    """Command lines of running processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if str(folder) in command:
            found.append(command)
    return found
