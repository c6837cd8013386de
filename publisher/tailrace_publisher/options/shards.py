"""The options of several publishers that share one database."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tailrace_schemas.records.shards import SHARDS_MAX
from tailrace_service.options.sections import Section


class ShardsConfig(Section):
    """How the tables are divided into shards, and how publishers share the shards."""

    count: int = Field(
        default=1,
        ge=1,
        le=SHARDS_MAX,
        description="Shards that the tables are divided into; 1 to 1000. With 1, one publisher has"
        " all. With more, the publishers with this configuration share them, and the shards of one"
        " that ends go to the others; each shard has a producer, connections and memory_mb of its"
        " own. For a prefix with published tables, tailrace reshard changes the division"
        " (docs/scaling.md).",
    )
    pinned: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description="schema.table, as the source spells it, to the number of its shard, from 0;"
        " default: none, so the name decides. Use it for a table that is as busy as all others.",
    )
    session_timeout_s: float = Field(
        default=6.0,
        ge=1.0,
        le=300.0,
        description="Seconds without a sign of life after which a publisher's shards go to the"
        " others; 1 to 300. The lowest value is the least that brokers allow"
        " (group.min.session.timeout.ms). A publisher that is stopped hands over at once.",
    )

    @model_validator(mode="after")
    def _pinned_to_what_there_is(self) -> Self:
        beyond = [name for name, shard in self.pinned.items() if shard >= self.count]
        if beyond:
            raise ValueError(
                f"pinned: {', '.join(beyond)}: with count: {self.count} the numbers are 0 to"
                f" {self.count - 1}"
            )
        if any(not all(name.partition(".")) for name in self.pinned):
            raise ValueError("pinned: name tables as schema.table")
        return self
