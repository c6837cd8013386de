"""The options of where to begin: unit, default, bounds, and what happens at both ends."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from tailrace_schemas.position.lsn import Lsn
from tailrace_service.options.sections import Section


class StartConfig(Section):
    """Where to begin with the changes; default: with the snapshot that snapshot.mode says.

    At most one of lsn, time, debezium_file and debezium_topic. It applies where the database has no
    checkpoint under this prefix: its tables begin with their changes from there on, without a
    snapshot. Where there is a checkpoint, that is said once and the publisher goes on from it. What
    is asked for must still be held: a start that cleanup has passed is refused, with the low
    watermark of each table, unless snapshot.mode is when_needed, which takes a snapshot of those.
    """

    lsn: str | None = Field(
        default=None,
        description="Commit LSN to begin with, itself included: xxxxxxxx:xxxxxxxx:xxxx, or 0x and"
        " 20 hexadecimal digits; not above the newest captured one.",
    )
    time: datetime | None = Field(
        default=None,
        description="Time to begin with, itself included, in ISO 8601: the first commit at or after"
        " it (sys.fn_cdc_map_time_to_lsn, to 1/300 s). With an offset or Z it is that moment, and"
        " without one the server's local time. Servers before 2022 do not tell their time zone:"
        " there an offset is taken as it is now, so give local times across a change of clocks.",
    )
    debezium_file: Path | None = Field(
        default=None,
        description="Offsets file of a Debezium connector in a standalone worker or the embedded"
        " engine (offset.storage.file.filename), stopped before. Its offsets lack command id and"
        " operation: it begins with their commit LSN, and the transaction that was cut there is"
        " published again.",
    )
    debezium_topic: str | None = Field(
        default=None,
        min_length=1,
        max_length=249,
        description="The same, from Kafka Connect's offsets topic (offset.storage.topic) on the"
        " brokers of publisher.kafka.",
    )
    debezium_name: str | None = Field(
        default=None,
        min_length=1,
        description="Name or topic.prefix of the connector, where several are of this database.",
    )

    @field_validator("lsn")
    @classmethod
    def _is_lsn(cls, text: str | None) -> str | None:
        if text is None:
            return None
        if re.fullmatch(r"0[xX][0-9a-fA-F]{20}", text):
            lsn = Lsn.from_bytes(bytes.fromhex(text[2:]))
        else:
            lsn = Lsn.parse(text)
        if lsn == Lsn.ZERO:
            raise ValueError("an LSN of zeros is none: leave the option out to begin anew")
        return str(lsn)

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        given = self.given
        if len(given) > 1:
            raise ValueError(f"give one of {', '.join(given)}: a start is in one place")
        if self.debezium_name is not None and not {"debezium_file", "debezium_topic"} & {*given}:
            raise ValueError("debezium_name needs debezium_file or debezium_topic")
        return self

    @property
    def given(self) -> list[str]:
        """Names of the options that say where, as they are given."""
        names = ("lsn", "time", "debezium_file", "debezium_topic")
        return [name for name in names if getattr(self, name) is not None]
