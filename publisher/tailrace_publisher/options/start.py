"""The options of the start position: unit, default, bounds, and their effects."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from tailrace_schemas.position.lsn import Lsn
from tailrace_service.options.sections import Section


class StartConfig(Section):
    """Where to start with the changes; default: with the snapshot of snapshot.mode.

    Set at most one of lsn, time, debezium_file and debezium_topic. It applies if the database has
    no checkpoint under this prefix: its tables start with their changes from there, without a
    snapshot. If there is a checkpoint, this is logged once and the publisher resumes from it. The
    change tables must still hold the requested changes. A start that cleanup has passed is refused,
    with the low watermark of each table. With snapshot.mode: when_needed such tables get a snapshot
    instead.
    """

    lsn: str | None = Field(
        default=None,
        description="First commit LSN to publish: xxxxxxxx:xxxxxxxx:xxxx, or 0x and 20 hexadecimal"
        " digits; not above the newest captured one.",
    )
    time: datetime | None = Field(
        default=None,
        description="Time to start at, in ISO 8601: the first commit at or after it is published"
        " first (sys.fn_cdc_map_time_to_lsn, to 1/300 s). With an offset or Z it is that moment,"
        " without one the server's local time. Servers before 2022 do not report their time zone,"
        " so their present offset is used: set a local time if the clocks changed since.",
    )
    debezium_file: Path | None = Field(
        default=None,
        description="Offsets file of a stopped Debezium connector in a standalone worker or the"
        " embedded engine (offset.storage.file.filename). Its offsets lack command id and"
        " operation, so publishing starts with their commit LSN and repeats that transaction.",
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
        description="Name or topic.prefix of the connector, if several are of this database.",
    )

    @field_validator("lsn")
    @classmethod
    def _is_lsn(cls, text: str | None) -> str | None:
        if text is None:
            return None
        lsn = Lsn.of_text(text)
        if lsn == Lsn.ZERO:
            raise ValueError(
                "an LSN of zeros is none. Fix: remove the option to start from scratch"
            )
        return str(lsn)

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        given = self.given
        if len(given) > 1:
            raise ValueError(f"give one of {', '.join(given)}: there is one start position")
        if self.debezium_name is not None and not {"debezium_file", "debezium_topic"} & {*given}:
            raise ValueError("debezium_name needs debezium_file or debezium_topic")
        return self

    @property
    def given(self) -> list[str]:
        """Names of the options that give a start position, as far as they are set."""
        names = ("lsn", "time", "debezium_file", "debezium_topic")
        return [name for name in names if getattr(self, name) is not None]
