"""The option that points the conformance cases at a real SQL Server, and their count by source."""

from __future__ import annotations

import collections

import pytest

SOURCE = "conformance source"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sqlserver-dsn",
        metavar="CONNECTION_STRING",
        help="run tests/conformance against this server (an ODBC connection string of a login that"
        " may create databases) instead of the embedded one",
    )
    parser.addoption(
        "--kill-rounds",
        type=int,
        default=3,
        help="how often tests/conformance/test_kill.py kills the embedded server",
    )


def pytest_terminal_summary(terminalreporter) -> None:
    # The reports know the source: with several workers the cases ran in other processes.
    counts = collections.Counter(
        (source, outcome)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, source in report.user_properties
        if name == SOURCE and report.when == "call"
    )
    if not counts:
        return
    terminalreporter.section("conformance by source")
    for source in ("documented", "inferred"):
        passed, failed = counts[source, "passed"], counts[source, "failed"]
        terminalreporter.line(f"{source}: {passed} passed, {failed} failed")
