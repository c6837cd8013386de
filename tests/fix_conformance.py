"""The option that points tests at a real SQL Server; cases by source, and where servers differ."""

from __future__ import annotations

import collections

import pytest

SOURCE = "conformance source"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sqlserver-dsn",
        metavar="CONNECTION_STRING",
        help="run tests/conformance, tests/pipeline and tests/end_to_end against this server (an"
        " ODBC connection string of a login that may create databases) instead of the embedded"
        " one; see docs/real-sqlserver.md",
    )
    parser.addoption(
        "--kill-rounds",
        type=int,
        default=3,
        help="how often tests/conformance/test_kill.py kills the embedded server",
    )


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
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
    if config.getoption("--sqlserver-dsn"):
        tell_differences(terminalreporter)


def tell_differences(terminalreporter) -> None:
    """Each case that the embedded server passes and the given one does not."""
    failed = [
        (dict(report.user_properties).get(SOURCE), report)
        for report in terminalreporter.stats.get("failed", ())
        if SOURCE in dict(report.user_properties)
    ]
    terminalreporter.section("where the given server differs from the embedded one")
    if not failed:
        terminalreporter.line("nowhere in these cases")
    for source, report in sorted(failed, key=lambda found: (str(found[0]), found[1].nodeid)):
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(crash.message if crash else report.longrepr).splitlines()[0]
        name = report.nodeid.rpartition("[")[2].rstrip("]")
        terminalreporter.line(f"{source}: {name}: {said[:300]}")
