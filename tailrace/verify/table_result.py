"""What a comparison finds of one table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tailrace.verify.row_differences import RowDifference
from tailrace.verify.table_shape import Key


@dataclass(slots=True)
class TableResult:
    """What was found of a table.

    Attributes:
        lsn: of the newest cut that it was compared with.
        first_lsn: of the first one: each row was compared at it or later.
        last_key: where the comparison of a part of the table ended; None: at its end.
        ranges: key ranges whose checksums were compared; 0 if the rows' hashes were.
        ranges_differing: of them, neighbours joined, those whose rows were then compared.
        rows_read: rows of the source that were read, repeated ones included.
        examples: the first differing rows.
        unsettled: rows that differed and changed each time that they were compared.
        keys: of differing rows; of at most one more than a repair takes.
        not_examined: further rows that differ, or changed during the first reads.
        repaired: rows that differed, and are equal since the publisher published them again.
        repair_problem: why differing rows were not repaired; None if they were, or nobody asked.
        problem: why it was not compared; None if it was.
        notes: what of it is not compared.
    """

    table: str
    lsn: str | None = None
    first_lsn: str | None = None
    last_key: int | None = None
    ranges: int = 0
    ranges_differing: int = 0
    source_rows: int = 0
    lake_rows: int = 0
    rows_read: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    examples: list[RowDifference] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    repaired: int = 0
    repair_problem: str | None = None
    unsettled: int = 0
    not_examined: int = 0
    problem: str | None = None
    notes: list[str] = field(default_factory=list)
    source_s: float = 0.0
    lake_s: float = 0.0
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether a row differs and was not repaired."""
        return bool(self.differing.total()) and not self.is_repaired

    @property
    def is_repaired(self) -> bool:
        """Whether rows differed, and all of them are equal now."""
        return self.repaired > 0 and self.repair_problem is None

    @property
    def is_proven(self) -> bool:
        """Whether every row was compared, and none differs."""
        return not (self.differs or self.unsettled or self.not_examined or self.problem)
