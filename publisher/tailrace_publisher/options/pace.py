"""Options of pace: how much is read and committed at once, and how long the publisher waits."""

from __future__ import annotations

from pydantic import Field

from tailrace_service.options.sections import Section


class PaceOptions(Section):
    """How much is read and committed at once, and how long the publisher waits between."""

    page_rows: int = Field(
        default=2_000,
        ge=1,
        le=100_000,
        description="Change rows per page; 1 to 100000. Lower: more round trips. Higher: more"
        " memory (four pages are held); try 10000 if the server is several milliseconds away. If"
        " rows are large, or many tables have news, memory_mb limits a page to fewer rows.",
    )
    window_transactions: int = Field(
        default=20_000,
        ge=1,
        le=100_000,
        description="Source transactions per poll at most; 1 to 100000. Lower: catching up is"
        " slower, because nothing is read between two polls. Higher: more memory, but only for"
        " commit times. A poll of large transactions has fewer: about 500,000 rows.",
    )
    rows_per_transaction: int = Field(
        default=40_000,
        ge=1,
        le=10_000_000,
        description="Rows after which a Kafka transaction is closed at the next end of a source"
        " transaction; 1 to 10000000. A source transaction with more rows spans several. Lower:"
        " brokers and readers work more while the publisher catches up; otherwise linger_ms closes"
        " it before.",
    )
    mb_per_transaction: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Megabytes of events after which a Kafka transaction is closed, if that comes"
        " before rows_per_transaction; 1 to 10000. Higher: readers of committed events wait longer,"
        " and brokers abort a transaction that exceeds kafka.transaction_timeout_s.",
    )
    memory_mb: int = Field(
        default=256,
        ge=16,
        le=1_000_000,
        description="Megabytes for change rows in memory, however large their values are; 16 to"
        " 1000000. Half is for the pages of all capture instances together, which get fewer rows if"
        " rows are large. Half is for events that wait to be sent. A page has at least one row, so"
        " a value must fit; the process needs about 100 MB more. Lower: more round trips for tables"
        " with large values.",
    )
    linger_ms: int = Field(
        default=150,
        ge=0,
        le=60_000,
        description="Milliseconds a Kafka transaction may wait for more rows; 0 to 60000. 0 commits"
        " every source transaction alone, which loads the brokers. If commits are slow and more"
        " rows are known to come, it waits longer: four times as long as the last commit took, up"
        " to a second; and a second while the backlog exceeds a window.",
    )
    poll_interval_ms: int = Field(
        default=500,
        ge=1,
        le=600_000,
        description="Longest pause between two polls, in milliseconds; 1 to 600000. After news it"
        " is 10 ms, and grows by half with each poll that finds none. It adds to the capture job's"
        " own interval (5 s by default).",
    )
    heartbeat_s: float = Field(
        default=10.0,
        ge=0.1,
        le=3600.0,
        description="Seconds between progress records of an idle publisher; 0.1 to 3600. They keep"
        " the lag known, and show a fenced publisher that it was replaced.",
    )
    capture_stall_s: float = Field(
        default=60.0,
        ge=1.0,
        le=86_400.0,
        description="Age of the newest log scan session, in seconds, at which the capture job"
        " counts as stopped; 1 to 86400.",
    )
    retry_backoff_max_s: float = Field(
        default=30.0,
        ge=0.01,
        le=3600.0,
        description="Longest pause between attempts while a part is unavailable, in seconds; 0.01"
        " to 3600; pauses start at 0.25 and double.",
    )
    pause_max_h: float = Field(
        default=24.0,
        ge=0.001,
        le=8760.0,
        description="Hours after which a pause of the publisher (tailrace pause) ends"
        " automatically; 0.001 to 8760. Keep it below the retention of the change tables (72 hours"
        " by default): rows that cleanup deletes before they are published are lost to the stream.",
    )

    @property
    def pages_bytes(self) -> int:
        """Memory limit of the pages of all capture instances together."""
        return self.memory_mb * 1_000_000 // 2

    @property
    def queue_bytes(self) -> int:
        """Memory limit of the events that wait to be sent."""
        return self.memory_mb * 1_000_000 - self.pages_bytes

    @property
    def bytes_per_transaction(self) -> int:
        """The option mb_per_transaction in bytes."""
        return self.mb_per_transaction * 1_000_000
