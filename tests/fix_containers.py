"""Says at the end of a run which images the container tests used."""

from __future__ import annotations

USED = "container image"


def pytest_terminal_summary(terminalreporter) -> None:
    # The reports know it: with several workers the tests ran in other processes.
    used = sorted(
        {
            str(text)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, text in getattr(report, "user_properties", ())
            if name == USED
        }
    )
    if used:
        terminalreporter.section("container images")
        for line in used:
            terminalreporter.line(line)
