"""Options of the retention of cuts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from tailrace_service.options.sections import Section

_FORMER: Final = "commit_retention_days"


class Retention(Section):
    """How long cuts stay readable: what exceeds either bound is forgotten."""

    days: float = Field(
        default=7.0,
        gt=0.0,
        le=36_500.0,
        description="Days that a cut stays readable after it was committed; up to 36500."
        " Lower: less storage. Higher: as_of and changes reach further back.",
    )
    cuts: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="Newest cuts that stay readable, as far as days allow; 1 to 10000000. Default:"
        " 20000 with Delta, a day with a cut every 4 s; 500 with Iceberg, half an hour. Lower: less"
        " storage in busy lakes. Higher: more commit rows and versions of tables; with Iceberg also"
        " slower writes, as each one reads and writes the list of all snapshots of its table.",
    )


def retention_path(lake: str) -> str:
    """Return the path of the file with a lake's oldest kept cut."""
    return f"{lake}/_tailrace/retention.json"


def with_former_option(options: Any) -> Any:
    """Replace the option of earlier releases by the section ``retention``."""
    if not isinstance(options, Mapping) or _FORMER not in options:
        return options
    found = dict(options)
    days = found.pop(_FORMER)
    section = found.get("retention") or {}
    if not isinstance(section, Mapping):
        return found
    if "days" in section:
        raise ValueError(f"{_FORMER} is now retention.days: give the latter only")
    return {**found, "retention": {**section, "days": days}}
