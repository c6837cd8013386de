"""The section ``databases``: several databases in one configuration, each with options of its own.

It maps the name of a database to what differs for it: the sections of the file again, all of them
optional. These options override what the file says for all databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tailrace_publisher.options.fleet import default_group
from tailrace_schemas.topics.escaped_names import topic_part
from tailrace_schemas.topics.topic_names import database_prefix
from tailrace_service.options.sections import did_you_mean
from tailrace_sink.options.s3_options import hadoop_address

Options = dict[str, Any]

_OF_THE_PROCESS: Final = (
    "metrics_port",
    "metrics_host",
    "http_token_file",
    "http_certificate",
    "http_key",
)


def laid_over(
    common: Mapping[str, Options], name: str, own: Mapping[str, Options]
) -> tuple[Options, Options]:
    """The options of publisher and sink of one database.

    Args:
        common: the sections for all databases.
        name: what the database is called: the default of source.database, and the last part of
            prefix and lake, unless its own options say otherwise.
    """
    publisher = _merged(common["publisher"], own["publisher"])
    sink = _merged(common["sink"], own["sink"])
    if "source" in publisher and "database" not in (own["publisher"].get("source") or {}):
        publisher["source"] = {**publisher["source"], "database": name}
    fleet, prefix = publisher.get("fleet"), common["publisher"].get("prefix")
    if isinstance(fleet, dict) and isinstance(prefix, str):
        # A member that is started with --database is in the same fleet as one that has all.
        publisher["fleet"] = {"group": default_group(prefix), **fleet}
    for options, given in ((publisher, own["publisher"]), (sink, own["sink"])):
        if "prefix" not in given and isinstance(options.get("prefix"), str):
            options["prefix"] = database_prefix(options["prefix"], name)
    for option in ("lake", "checkpoint_location"):
        if option not in own["sink"] and isinstance(sink.get(option), str):
            sink[option] = f"{sink[option].rstrip('/')}/{topic_part(name)}"
    return publisher, sink


def problems_of(databases: Any, sections: tuple[str, ...]) -> list[str]:
    """What is wrong with the section itself; a sentence each.

    Args:
        databases: the section as it is in the file.
        sections: those that may be in it.
    """
    if not isinstance(databases, dict) or not databases:
        return ["databases: a mapping from names of databases to what is different for each"]
    problems = []
    seen: dict[str, str] = {}
    for name, own in databases.items():
        if not isinstance(name, str) or not name:
            problems.append(f"databases.{name}: a name is text; put it into quotes")
            continue
        twin = seen.setdefault(name.casefold(), name)
        if twin != name:
            problems.append(f"databases.{name} and databases.{twin} differ in case only")
        if own is None:
            continue
        if not isinstance(own, dict):
            problems.append(f"databases.{name}: a mapping is expected, or nothing")
            continue
        problems.extend(
            f"databases.{name}.{section} is not a section:"
            f" {did_you_mean(section, sections) or ', '.join(sections) + ' are'}"
            for section in sorted(map(str, own.keys() - set(sections)))
        )
        problems.extend(
            f"databases.{name}.{section} is not a mapping. Fix: write its options below it, as"
            " option: value"
            for section in ("publisher", "sink")
            if not isinstance(own.get(section) or {}, dict)
        )
        publisher = own.get("publisher")
        problems.extend(
            f"databases.{name}.publisher.{option}: there is one endpoint for all databases: set"
            f" publisher.{option}"
            for option in _OF_THE_PROCESS
            if isinstance(publisher, dict) and option in publisher
        )
    return problems


def lakes_that_are_one(sinks: Mapping[str, Options]) -> list[str]:
    """Which databases would have the same lake; a sentence for each.

    Args:
        sinks: the options of each database's sink.
    """
    first: dict[str, str] = {}
    problems = []
    for name, options in sinks.items():
        lake = options.get("lake")
        if not isinstance(lake, str):
            continue
        other = first.setdefault(hadoop_address(lake).rstrip("/"), name)
        if other != name:
            problems.append(
                f"databases.{name}.sink.lake and that of {other} are both {lake}: a lake has the"
                " cuts of one database; give each a folder of its own"
            )
    return problems


def _merged(common: Any, own: Any) -> Any:
    """Mappings are merged at every level; of everything else the database's own counts."""
    if not isinstance(common, dict) or not isinstance(own, dict):
        return own
    both = {name: _merged(common[name], own[name]) for name in common.keys() & own.keys()}
    return {**common, **own, **both}
