"""What happens in a run, as a list of steps that can be cut down.

A step has its own small seed, from which it chooses when its turn comes, out of what there is then
(which table, which row). So a step means much the same when others before it are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens.

    Attributes:
        kind: name of an action, see ``actions``.
        after: calls of the publisher since the step before.
        seed: for what the action chooses.
    """

    kind: str
    after: int
    seed: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What does not change in a run.

    Attributes:
        replicas: servers of the availability group; 1 is a single server.
        read_only: whether the publisher asks for a readable secondary.
        passes_async: trace flag 1448.
        maxtrans: of the capture job.
        command_ids: ``all``, ``none``, ``updated`` (a step may bring them), or ``mixed``: all have
            them, and some tables' indexes do not.
        has_log_stats, has_time_zone, identity, sees_state, sees_jobs, sees_server_state,
            has_help_jobs: see ``view.Features``.
        zone_change_h: hours from the beginning to a change of the clocks; None for none.
        zone_back: whether the clocks are put back then.
        tables: how many of the templates there are.
        allows_snapshot: see ``view.Features``.
        blocks: whether rows may be read in blocks, as they are by default.
        call_s: seconds that each call of any server takes.
        has_masks: see ``view.Features``.
        few_rows: rows from which on they are; really ``page_size.FEW_ROWS``.
        dates_back: whether each capture instance has an earlier creation date than those before it,
            as in the hour that comes twice, after a clock was set back, or at a replica in another
            time zone.
        lists: whether the first instances of tables with keys leave their last column out.
    """

    replicas: int
    read_only: bool
    passes_async: bool
    maxtrans: int
    command_ids: str
    has_log_stats: bool
    has_time_zone: bool
    identity: str
    sees_state: bool
    sees_jobs: bool
    zone_change_h: float | None
    zone_back: bool
    tables: int
    allows_snapshot: bool = False
    blocks: bool = False
    few_rows: int = 256
    call_s: float = 0.0
    dates_back: bool = False
    lists: bool = False
    sees_server_state: bool = True
    has_help_jobs: bool = True
    has_masks: bool = False

    @property
    def sees_log(self) -> bool:
        """Whether the login has the right on the server, which covers that on the database."""
        return self.sees_state and self.sees_server_state

    @property
    def goes_by_time(self) -> bool:
        """Whether fences are moments, which an honest clock and a single server must keep true.

        What they cannot keep (ADR 0015) is left out: clocks that go back, groups.
        """
        return not (self.has_log_stats and self.sees_log)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole run.

    Attributes:
        seed: from which it was drawn.
        around: what does not change.
        options: of the publisher, as its configuration has them.
        steps: what happens.
    """

    seed: int
    around: Surroundings
    options: dict[str, Any]
    steps: tuple[Step, ...]

    def without(self, begin: int, end: int) -> Scenario:
        """The scenario without steps in [begin, end); the others come when they came."""
        gap = sum(step.after + 1 for step in self.steps[begin:end])
        later = list(self.steps[end:])
        if later:
            later[0] = replace(later[0], after=later[0].after + gap)
        return replace(self, steps=self.steps[:begin] + tuple(later))
