"""The option that points tests at a real SQL Server; cases by source, and where servers differ."""

from __future__ import annotations

import collections
import textwrap

import pytest

SOURCE = "conformance source"
DIFFERENCE = "conformance difference"
GIVEN_VERSION = pytest.StashKey[str]()
"""The first line of @@VERSION of the server of --sqlserver-dsn (fix_sqlserver.py)."""
_WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sqlserver-dsn",
        metavar="CONNECTION_STRING",
        help="run conformance, pipeline and end_to_end tests against this server (an"
        " ODBC connection string of a login that may create databases) instead of the embedded"
        " one; see docs/real-sqlserver.md",
    )
    parser.addoption(
        "--kill-rounds",
        type=int,
        default=3,
        help="how often conformance/test_kill.py kills the embedded server",
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
    if counts:
        terminalreporter.section("conformance by source")
    for source in ("documented", "inferred") if counts else ():
        passed, failed = counts[source, "passed"], counts[source, "failed"]
        terminalreporter.line(f"{source}: {passed} passed, {failed} failed")
    if config.getoption("--sqlserver-dsn"):
        tell_differences(terminalreporter)


def tell_differences(terminalreporter) -> None:
    """Each test that the embedded server passes and the given one does not, as a table."""
    reports = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    terminalreporter.section("where the given server differs from the embedded one")
    terminalreporter.line(f"the given one: {terminalreporter.config.stash[GIVEN_VERSION]}")
    if not reports:
        terminalreporter.line("nowhere in these tests")
    for source, row in sorted(map(difference_of, reports)):
        terminalreporter.line("")
        for name, text in zip(("", "sql", "expected", "got"), row, strict=True):
            label = f"{name}: " if name else f"{source}: " if source else ""
            lines = textwrap.wrap(f"{label}{text}", _WIDTH, subsequent_indent="    ")
            for line in lines if text else ():
                terminalreporter.line(f"  {line}" if name else line)


def difference_of(report) -> tuple[str, list[str]]:
    """Source of the expectation, then the place, the statement, expected and got."""
    properties = dict(report.user_properties)
    source = str(properties.get(SOURCE, ""))
    # The report of a test's end has the properties of the test, too.
    if DIFFERENCE in properties and report.when == "call":
        return source, properties[DIFFERENCE]
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(crash.message if crash else report.longrepr)
    return source, [report.nodeid, "", "passes, as with the embedded server", said.splitlines()[0]]
