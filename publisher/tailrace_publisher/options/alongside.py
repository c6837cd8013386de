"""Options of what is published beside the data (ADR 0025)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

TransactionMetadataOption = Annotated[
    bool,
    Field(
        description="Publish begin and end of each source transaction, with its events per table,"
        " to <prefix>.transaction (one partition), and give each event its transaction's id (the"
        " commit LSN), its number in it, and its number in it among those of its table; default"
        " false. Both are in the Kafka transaction of the events. Rows of snapshots are in none. It"
        " costs time per event; switched on inside a large transaction, its rest is counted alone."
        " Not with shards: each would count its own tables only.",
    ),
]
SchemaChangesOption = Annotated[
    bool,
    Field(
        description="Publish DDL of published tables, and hand-overs to newer capture instances, to"
        " <prefix>.<database>.ddl (one partition): text, table, LSN, and the events' columns before"
        " and after; default false. Each is out before the first event of its version, and in the"
        " Kafka transaction that keeps that it is. What is before the LSN that a first start"
        " begins with is not told.",
    ),
]
