"""The head of the page: is it all right, since when, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.lag.verdict import Finding, duration
from tailrace.web.pages.advice import advice
from tailrace.web.pages.html import moment, tag, text

if TYPE_CHECKING:
    from tailrace.web.model import Model


def title(model: Model, name: str) -> str:
    """The title of the window: how many findings there are, and which pipeline it is."""
    found = model.verdict.findings
    return f"({len(found)}!) {name}" if found else name


def summary(model: Model) -> str:
    """One line of counts: tables stopped, in snapshot, captured."""
    bad = sum(row.is_bad for row in model.rows)
    unread = sum(row.is_unread for row in model.rows)
    counts = [f"{bad} stopped"] * bool(bad) + [f"{unread} in snapshot"] * bool(unread)
    tables = f"{len(model.rows)} table" + ("" if len(model.rows) == 1 else "s")
    return ", ".join([*counts, tables])


def headline(model: Model) -> str:
    """The verdict in one large sentence, since when it is so, and the next step."""
    found = model.verdict
    seen = f"Seen at {moment(model.freshness.at_ms)}."
    since = ""
    if model.since_ms is not None:
        held_s = max(0.0, (model.freshness.at_ms - model.since_ms) / 1000)
        since = f" So since {moment(model.since_ms)} ({text(duration(held_s))})."
    content = tag("h1", text(found.headline)) + tag("p", seen + since, {"class": "quiet"})
    if found.findings:
        content += _advice(found.findings[0])
    if len(found.findings) > 1:
        others = "".join(
            tag("li", text(other.sentence) + _advice(other), {"class": other.state})
            for other in found.findings[1:]
        )
        content += tag("h2", "Also") + tag("ul", others)
    attributes = {"class": f"verdict {found.state}", "role": "status", "data-name": "verdict"}
    return tag("section", content, attributes)


def _advice(finding: Finding) -> str:
    return advice(finding.fix, finding.command, finding.runbook)
