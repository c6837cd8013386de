"""The option that points the conformance cases at a real SQL Server, and their count by source."""

from __future__ import annotations

import collections

import pytest

RAN = pytest.StashKey[collections.Counter]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sqlserver-dsn",
        metavar="CONNECTION_STRING",
        help="run tests/conformance against this server (an ODBC connection string of a login that"
        " may create databases) instead of the embedded one",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RAN] = collections.Counter()


def count_case(config: pytest.Config, source: str, outcome: str) -> None:
    """Notes that a case of that source ended so."""
    config.stash[RAN][source, outcome] += 1


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    counts = config.stash[RAN]
    if not counts:
        return
    terminalreporter.section("conformance by source")
    for source in ("documented", "inferred"):
        passed, failed = counts[source, "passed"], counts[source, "failed"]
        terminalreporter.line(f"{source}: {passed} passed, {failed} failed")
