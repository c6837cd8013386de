"""The runbooks on the page: what is read at night must not need the internet."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final
from urllib.parse import quote

from markdown_it import MarkdownIt

from tailrace.web.pages.html import text

_NAME: Final = re.compile(r"[A-Za-z]+")
# Links of the documentation to another runbook; any other page is not here.
_RUNBOOK: Final = re.compile(r'<a href="([A-Za-z]+)\.md">')
_ELSEWHERE: Final = re.compile(r'<a href="[^/"][^"]*\.[a-z]+(?:#[^"]*)?">(.*?)</a>', re.DOTALL)


def runbook_link(name: str) -> str:
    """A link to a runbook."""
    return f'<a href="runbook?name={text(quote(name))}">runbook {text(name)}</a>'


def runbook_html(name: str) -> str | None:
    """A runbook as HTML; None if there is none of that name."""
    if not _NAME.fullmatch(name) or name == "index":
        return None
    page = resources.files("tailrace.web") / "runbooks" / f"{name}.md"
    if not page.is_file():
        return None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    html = markdown.render(page.read_text(encoding="utf-8"))
    html = _RUNBOOK.sub(r'<a href="runbook?name=\1">', html)
    return _ELSEWHERE.sub(r"\1", html)
