"""Whether databases of one process keep out of each other's topics and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_service.options.endpoint import EndpointOptions


def problems_of(configs: Mapping[str, PublisherConfig]) -> list[str]:
    """What keeps databases from being published side by side; a sentence each, with the fix.

    LSNs of two databases do not compare, so neither do the progress, checkpoint and map of two:
    each needs topics of its own.

    Args:
        configs: the options of each, by what it is called.
    """
    problems = []
    if not configs:
        problems.append("databases: name one or more")
    for (one, a), (two, b) in combinations(configs.items(), 2):
        if a.prefix == b.prefix:
            problems.append(
                f"databases {one} and {two} have the same prefix, {a.prefix}: their progress,"
                " checkpoints and signals would be in the same topics, and no sink could tell them"
                f" apart: give each its own, such as {a.prefix}.{one} and {b.prefix}.{two}, which"
                " is what they get without a prefix in their own options"
            )
        elif _is_below(a.prefix, b.prefix) or _is_below(b.prefix, a.prefix):
            problems.append(
                f"databases {one} and {two}: of the prefixes {a.prefix} and {b.prefix} one begins"
                " with the other and a dot, so the topics of the one would be among those of the"
                " other: choose another"
            )
        own = [
            name for name in EndpointOptions.model_fields if getattr(a, name) != getattr(b, name)
        ]
        if own:
            problems.append(
                f"databases {one} and {two} differ in {', '.join(own)}: there is one endpoint for"
                " the whole process"
            )
    return problems


def _is_below(longer: str, shorter: str) -> bool:
    return longer.startswith(f"{shorter}.")
