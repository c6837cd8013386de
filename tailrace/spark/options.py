"""Options of the source ``tailrace``. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from tailrace_sink.errors import ConfigError
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.reading.cut_errors import PointInvalid
from tailrace_sink.reading.point import LATEST, lsn_or_time

CLOSED_ROWS: Final = "closed_rows"
_STORE: Final = "s3."
_NAMES: Final = ("path", "tables", "after", "up_to", CLOSED_ROWS)
_BOOLEANS: Final = {"true": True, "false": False}

Point = str | datetime


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Which changes of which lake are read.

    Attributes:
        tables: names as a person writes them.
        after: LSN, commit time or ``latest`` after which changes start; None: the log's start.
        up_to: LSN or commit time of the last one; None: the newest closed LSN.
        closed_rows: whether each micro-batch ends with a row of the LSN that it closes.
    """

    lake: str
    tables: tuple[str, ...]
    after: Point | None = None
    up_to: Point | None = None
    closed_rows: bool = False
    store: S3Options | None = field(default=None, repr=False)

    @classmethod
    def load(cls, options: Mapping[str, str]) -> Self:
        """Validate the options of a DataFrame.

        Raises:
            ConfigError: names every wrong option.
        """
        given = {name.lower(): value for name, value in options.items()}
        store = {name: given.pop(name) for name in list(given) if name.startswith(_STORE)}
        problems = [_unknown(name) for name in given if name not in _NAMES]
        if not given.get("path"):
            problems.append('the lake is missing. Fix: .load("<the lake\'s address>")')
        tables = _tables(given.get("tables", ""), problems)
        points: dict[str, Point | None] = {}
        for name in ("after", "up_to"):
            points[name] = text = given.get(name) or None
            if text is not None and not (name == "after" and text == LATEST):
                points[name] = _point(name, text, problems)
        closed = _BOOLEANS.get(given.get(CLOSED_ROWS, "false").lower())
        if closed is None:
            problems.append(f"{CLOSED_ROWS} is {given[CLOSED_ROWS]!r}. Fix: use true or false")
        if problems:
            raise ConfigError(problems)
        s3 = S3Options.load({n.removeprefix(_STORE): v for n, v in store.items()})
        return cls(
            given["path"], tables, **points, closed_rows=closed is True, store=s3 if store else None
        )


def _tables(text: str, problems: list[str]) -> tuple[str, ...]:
    """Read the option: a name, or a JSON list of names."""
    found: Any = [text.strip()] if text.strip() else []
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = [None]
    if found and all(isinstance(name, str) for name in found):
        return tuple(dict.fromkeys(found))
    said = f"is {text!r}" if text.strip() else "is missing"
    problems.append(
        f'tables {said}. Fix: .option("tables", "dbo.orders"), or a JSON list of names:'
        ' ["dbo.orders", "dbo.lines"]'
    )
    return ()


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _NAMES, n=1)
    return f"{name} is no option. Fix: " + (
        f"did you mean {near[0]}?" if near else f"use {', '.join(_NAMES)} or {_STORE}<option>"
    )


def _point(name: str, text: str, problems: list[str]) -> Point | None:
    try:
        return lsn_or_time(text)
    except PointInvalid as error:
        also = f", or {LATEST}" if name == "after" else ""
        problems.append(f"{name}: {error}{also}")
        return None
