"""Labels and GOTO.

A jump goes to a label of the same block or of one around it, from any place in there; SQL Server
also allows jumps into blocks, which are refused by name.

https://learn.microsoft.com/sql/t-sql/language-elements/goto-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax.statements import Statement


@dataclass(frozen=True, slots=True, eq=False)
class Label(Statement):
    """``name:``, casefolded."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Goto(Statement):
    """``GOTO name``, casefolded."""

    name: str


class GotoSignal(Exception):
    """GOTO on its way to its label."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def position_of(statements: tuple[Statement, ...], name: str) -> int | None:
    """Where a label stands among the statements of a block, or None."""
    for position, statement in enumerate(statements):
        if isinstance(statement, Label) and statement.name == name:
            return position
    return None


@dataclass(slots=True)
class LabelScope:
    """The labels and jumps of one batch or module, while it is parsed."""

    blocks: list[int] = field(default_factory=list)
    """The blocks around the statement that is being read."""
    count: int = 0
    labels: dict[str, tuple[int, ...]] = field(default_factory=dict)
    jumps: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)

    def enter(self) -> None:
        """A block begins."""
        self.count += 1
        self.blocks.append(self.count)

    def leave(self) -> None:
        """It ends."""
        self.blocks.pop()

    def label(self, name: str, line: int) -> Label:
        """A label.

        Raises:
            SqlError: 132 when there is another of that name.
        """
        folded = name.casefold()
        if folded in self.labels:
            raise messages.error(132, name, line=line)
        self.labels[folded] = tuple(self.blocks)
        return Label(folded, line=line)

    def jump(self, name: str, line: int) -> Goto:
        """A GOTO."""
        self.jumps.append((name, line, tuple(self.blocks)))
        return Goto(name.casefold(), line=line)

    def check(self) -> None:
        """At the end of the text.

        Raises:
            SqlError: 133 for a label that is not there, 50900 for a jump into a block.
        """
        for name, line, blocks in self.jumps:
            place = self.labels.get(name.casefold())
            if place is None:
                raise messages.error(133, name, line=line)
            if blocks[: len(place)] != place:
                raise not_supported("GOTO into a block")
