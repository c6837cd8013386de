"""The first page: the verdict, the pipeline, the tables, the last hours, requests and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tailrace.web.pages.headline import headline, summary, title
from tailrace.web.pages.history import history
from tailrace.web.pages.html import moment, tag, text
from tailrace.web.pages.pipeline import pipeline
from tailrace.web.pages.table_groups import table_groups

if TYPE_CHECKING:
    from tailrace.web.model import Model
    from tailrace.web.requests import Requested

_ERRORS_SHOWN: Final = 20


def overview(model: Model, name: str, age_s: float, requests: Sequence[Requested] = ()) -> str:
    """The part of the page that is renewed.

    Args:
        name: the pipeline's, for the title of the window.
        age_s: seconds since the parts were queried.
        requests: sent from this page; the newest first.
    """
    content = "".join(
        [
            headline(model),
            pipeline(model),
            _requests(requests),
            table_groups(model),
            history(model),
            _errors(model),
            _publisher_menu(),
        ]
    )
    attributes = {
        "id": "live",
        "data-keyed": "",
        "data-age": f"{age_s:.1f}",
        "data-title": title(model, name),
        "data-state": model.verdict.state,
        "data-counts": summary(model),
    }
    return tag("div", content, attributes)


def _requests(requests: Sequence[Requested]) -> str:
    """What was asked from this page, and what the publisher answered."""
    lines = "".join(
        tag("li", f"{moment(r.at_ms)} {text(r.what)}: {text(r.outcome)}", {"class": r.kind})
        for r in requests
    )
    if not lines:
        return ""
    return tag("section", tag("h2", "Requests") + tag("ul", lines), {"data-name": "requests"})


def _publisher_menu() -> str:
    buttons = "".join(
        f'<button type="button" data-signal="{signal}">{told}</button>'
        for signal, told in (("pause", "pause the publisher"), ("resume", "resume the publisher"))
    )
    menu = tag("summary", "Actions on the whole pipeline") + tag("div", buttons)
    return tag("details", menu, {"class": "menu scripts", "data-name": "publisher-menu"})


def _errors(model: Model) -> str:
    def told() -> Iterator[str]:
        for program, failure in model.errors[:_ERRORS_SHOWN]:
            of = f" {text(failure.table)}" if failure.table else ""
            yield tag(
                "li",
                f"{moment(failure.at_ms)} {program}{of}"
                f" <strong>{text(failure.error)}</strong> {text(failure.reason)}",
            )

    lines = "".join(told()) or tag("li", "none reported")
    content = tag("h2", "Last errors") + tag("ul", lines, {"class": "errors"})
    return tag("section", content, {"data-name": "errors"})
