"""Runs each test that failed a second time, alone, and tells flaky tests from broken ones.

A test that passes alone is *flaky*: it failed by its neighbours, by the machine's load or by
chance. Its first traceback is printed, pytest's closing line counts it as flaky, and the run
passes. A test that fails twice fails the run, and both outcomes are printed. Reruns in the same
worker (as of pytest-rerunfailures) would keep the neighbours, the load and the fixtures.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from _pytest.terminal import TerminalReporter

FLAKY = "flaky"
FAILURES_MAX = 10
"""More failures than these are no chance: they are not run again."""
LIMIT_S = 900
_CLOSING = re.compile(r"^=+ 1 passed[, ]", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-run",
        action="store_true",
        help="run each test that failed a second time, alone; one that passes then is flaky",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--second-run") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondRuns(config), "second-runs")


@dataclass
class SecondRuns:
    """The second runs of a session.

    Attributes:
        flaky: passed alone, with the reports of the first run.
        output: what pytest printed of a test that failed again.
    """

    config: pytest.Config
    flaky: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Run again what failed, once the workers have ended."""
        stopped = session.shouldfail or session.shouldstop
        if exitstatus != pytest.ExitCode.TESTS_FAILED or stopped:
            return
        reporter = self._reporter
        reports = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
        failed = list(dict.fromkeys(report.nodeid for report in reports))
        if len(failed) > FAILURES_MAX:
            return
        for nodeid in failed:
            reporter.write_line(f"\nsecond run, alone: {nodeid}")
            passed, output = run_alone(self.config, nodeid)
            if passed:
                self.flaky[nodeid] = [report for report in reports if report.nodeid == nodeid]
            else:
                self.output[nodeid] = output
        self._count()
        if not self.output:
            session.exitstatus = pytest.ExitCode.OK

    def _count(self) -> None:
        """Count the flaky ones as such in pytest's closing line."""
        stats = self._reporter.stats
        for kind in ("failed", "error"):
            kept = [report for report in stats.pop(kind, ()) if report.nodeid not in self.flaky]
            if kept:
                stats[kind] = kept
        if self.flaky:
            self._reporter._add_stats(FLAKY, [reports[0] for reports in self.flaky.values()])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter):
        """Print the first tracebacks of flaky tests, and list outcomes as the last lines."""
        for nodeid, reports in self.flaky.items():
            terminalreporter.write_sep("=", f"FLAKY {nodeid}: its first run", yellow=True)
            for report in reports:
                terminalreporter._outrep_summary(report)
        for nodeid, output in self.output.items():
            terminalreporter.write_sep("=", f"FAILED TWICE {nodeid}: its second run", red=True)
            terminalreporter.write_line(output)
        yield
        for nodeid in self.flaky:
            terminalreporter.write_line(f"FLAKY {nodeid}: failed, passed alone", yellow=True)
        for nodeid in self.output:
            terminalreporter.write_line(f"FAILED {nodeid}: failed twice", red=True)

    @property
    def _reporter(self) -> TerminalReporter:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, TerminalReporter)
        return reporter


def run_alone(config: pytest.Config, nodeid: str) -> tuple[bool, str]:
    """Whether a test passes in a process of its own, and what pytest prints."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:randomly", nodeid]
    if dsn := config.getoption("--sqlserver-dsn", None):
        command += ["--sqlserver-dsn", dsn]
    try:
        ended = subprocess.run(
            command,
            cwd=config.rootpath,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not end within {LIMIT_S} s"
    # One that is skipped the second time has not passed.
    passed = ended.returncode == 0 and _CLOSING.search(ended.stdout) is not None
    return passed, ended.stdout + ended.stderr
