"""The options of publishers that share databases, or stand by for one."""

from __future__ import annotations

from pydantic import Field

from tailrace_service.options.sections import Section


class FleetConfig(Section):
    """Several publishers: each database is published by one of them, and by another if it ends."""

    join: bool = Field(
        default=False,
        description="Join a fleet: a consumer group that assigns each database to one of its"
        " members. The databases of a member that ends go to the others. Of members with one"
        " database, one publishes and the others stand by. Requires Read on the group and on the"
        " topics <prefix>.offsets (docs/scaling.md).",
    )
    group: str = Field(
        default="",
        description="Consumer group of the fleet; default: tailrace-<prefix>, with the prefix that"
        " all databases have in common. Members may have different databases.",
    )
    session_timeout_s: float = Field(
        default=6.0,
        ge=1.0,
        le=300.0,
        description="Seconds without a sign of life after which a publisher's databases go to the"
        " others; 1 to 300. The lowest value is the least that brokers allow"
        " (group.min.session.timeout.ms). A publisher that is stopped hands over at once.",
    )


def default_group(prefix: str) -> str:
    """The consumer group of a fleet that names none.

    Args:
        prefix: the prefix that all databases have in common, or that of the only one.
    """
    return f"tailrace-{prefix}"
