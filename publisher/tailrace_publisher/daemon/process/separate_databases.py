"""The check that databases of one process do not share topics or transactions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_service.options.endpoint import EndpointOptions


def problems_of(configs: Mapping[str, PublisherConfig]) -> list[str]:
    """Return why databases cannot be published in one process; a sentence each, with the fix.

    LSNs of two databases cannot be compared, and neither can their progress and checkpoints.
    So each database needs its own topics.

    Args:
        configs: the options of each database, by its name.
    """
    problems = []
    if not configs:
        problems.append("databases: name one or more")
    for (one, a), (two, b) in combinations(configs.items(), 2):
        if a.prefix == b.prefix:
            problems.append(
                f"databases {one} and {two} have the same prefix, {a.prefix}: they would share the"
                " topics of progress, checkpoints and signals, and no sink could separate them."
                f" Fix: give each its own, such as {a.prefix}.{one} and {b.prefix}.{two}, which"
                " are the defaults without a prefix in their own options"
            )
        elif _is_below(a.prefix, b.prefix) or _is_below(b.prefix, a.prefix):
            problems.append(
                f"databases {one} and {two}: of the prefixes {a.prefix} and {b.prefix} one begins"
                " with the other and a dot, so the topics of one would be among those of the"
                " other. Fix: choose another prefix"
            )
        own = [
            name for name in EndpointOptions.model_fields if getattr(a, name) != getattr(b, name)
        ]
        if own:
            problems.append(
                f"databases {one} and {two} differ in {', '.join(own)}, but the process has only"
                " one endpoint. Fix: give them the same values"
            )
        if a.fleet.join != b.fleet.join or (a.fleet.join and a.fleet_group != b.fleet_group):
            problems.append(
                f"databases {one} and {two} differ in fleet, but the process is one member of one"
                f" group ({a.fleet_group}, {b.fleet_group}). Fix: give both the same fleet.join and"
                " fleet.group"
            )
        elif a.fleet.join and a.kafka.bootstrap != b.kafka.bootstrap:
            problems.append(
                f"databases {one} and {two} differ in kafka.bootstrap, but a fleet is a consumer"
                " group of one cluster. Fix: publish them by fleets of their own"
            )
    return problems


def _is_below(longer: str, shorter: str) -> bool:
    return longer.startswith(f"{shorter}.")
