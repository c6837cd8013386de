"""The report: a line a finding, and below it why it matters and what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.text import Text

from tailrace.doctor.findings import Finding, Level, Part
from tailrace.reading.terminal import shown, shown_json

_MARKS: Final = {
    Level.OK: ("ok     ", "green"),
    Level.WARNING: ("warning", "yellow"),
    Level.PROBLEM: ("problem", "bold red"),
}


def as_text(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings part by part, and how many there are of each kind."""
    for part in Part:
        of_part = [finding for finding in findings if finding.part is part]
        if of_part:
            console.print(Text(part.value, style="bold"))
        for finding in of_part:
            as_line(console, finding)
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    console.print(
        f"\n{counts[Level.OK]} ok, {counts[Level.WARNING]} warnings,"
        f" {counts[Level.PROBLEM]} problems",
        highlight=False,
    )


def as_line(console: Console, finding: Finding) -> None:
    """Print one finding, with its reason and fix below it."""
    mark, style = _MARKS[finding.level]
    line = (
        Text("  ")
        .append(mark, style=style)
        .append(f"  {shown(finding.subject)}: {shown(finding.text)}")
    )
    console.print(line, soft_wrap=True)
    if finding.why:
        console.print(Text(f"           why: {finding.why}", style="dim"), soft_wrap=True)
    if finding.fix is not None:
        console.print(
            Text(f"           fix: {shown(finding.fix.text, lines=True)}"), soft_wrap=True
        )


def as_json(findings: Sequence[Finding]) -> str:
    """The findings as one JSON object, each with the fields of :class:`Finding`."""
    answer = {"findings": [asdict(finding) for finding in findings]}
    return shown_json(json.dumps(answer, indent=2, ensure_ascii=False))
