"""Options of the cleanup of change tables by the publisher."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from tailrace_service.options.sections import Section


class CleanupWait(StrEnum):
    """What change rows wait for before the publisher removes them."""

    OFF = "off"
    TOPICS = "topics"
    LAKE = "lake"


class CleanupConfig(Section):
    """Cleanup of change tables by what is published, instead of by age."""

    wait_for: CleanupWait = Field(
        default=CleanupWait.OFF,
        description="off: the server's cleanup job alone removes change rows, by their age,"
        " published or not. topics: the publisher removes those that are committed to the topics;"
        " it needs db_owner (source.primary). lake: it also waits until the logs of all lakes hold"
        " them (lakes). Set the job's retention to the longest outage that the disk allows, also of"
        " a lake; tailrace doctor names the statement. Other readers of the change tables lose what"
        " this publisher has published.",
    )
    every_s: float = Field(
        default=60.0,
        ge=1,
        le=86_400,
        description="Seconds between two cleanups; 1 to 86400. Each table gets bites of 1,000"
        " commits, and at most 50,000 change rows unless one transaction has more. Higher: change"
        " tables grow larger, and each bite deletes more rows.",
    )

    @property
    def is_on(self) -> bool:
        """Whether the publisher removes change rows."""
        return self.wait_for is not CleanupWait.OFF
