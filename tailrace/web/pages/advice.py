"""What to do next: in words, a command to copy, and the runbook."""

from __future__ import annotations

from tailrace.web.pages.html import tag, text
from tailrace.web.pages.runbooks_page import runbook_link


def advice(fix: str, command: str, runbook: str) -> str:
    """One paragraph; nothing if there is nothing to do.

    Args:
        fix: in words; the command is shown in its place there, or after it.
    """
    told = text(fix)
    if command:
        shown = text(command)
        copied = f'<code>{shown}</code> <button type="button" data-copy="{shown}">copy</button>'
        told = told.replace(shown, copied, 1) if shown in told else f"{told} {copied}".strip()
    if runbook:
        told = f"{told} {runbook_link(runbook)}".strip()
    return tag("p", f"Do this: {told}", {"class": "advice"}) if told else ""
