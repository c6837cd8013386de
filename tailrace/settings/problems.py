"""What is wrong with a configuration: each fault once, with the path where it is fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace_service.options.sections import did_you_mean

SECTIONS: Final = ("publisher", "sink")
SHARED: Final = ("kafka", "registry", "prefix", "tracing")
"""Sections, and an option, at the top of the file that are defaults of both sections."""
DATABASES: Final = "databases"
_KNOWN: Final = (*SECTIONS, *SHARED, DATABASES)
_KNOWN_SECTIONS: Final = (
    "the sections are publisher, sink, and kafka, registry, prefix, tracing as defaults of both,"
    " and databases"
)


def section_problems(options: Mapping[Any, Any]) -> list[str]:
    """Sections at the top of the file that are unknown, or no mappings."""
    unknown = sorted(options.keys() - {*_KNOWN}, key=str)
    return [
        *(
            f"{name} is not a section: {did_you_mean(str(name), _KNOWN) or _KNOWN_SECTIONS}"
            for name in unknown
        ),
        *(
            f"{section} is not a mapping. Fix: write its options below it, as option: value"
            for section in SECTIONS
            if not isinstance(options.get(section) or {}, dict)
        ),
    ]


def without_follow_ups(problems: Sequence[str], further: Sequence[str]) -> list[str]:
    """Both lists; what is missing only because its name is misspelled is left out."""
    meant = [name for name in SHARED if any(f"did you mean {name}?" in each for each in problems)]
    ends = tuple(f"{name} is missing: set it" for name in meant)
    return [*problems, *(each for each in further if not (ends and each.endswith(ends)))]


def named_once(publisher: Sequence[str], sink: Sequence[str]) -> list[str]:
    """The problems of both sections, by their paths; one of a default of both is named once."""
    both = [each for each in publisher if each in sink and _is_shared(each)]
    return [
        *both,
        *(f"publisher.{each}" for each in publisher if each not in both),
        *(f"sink.{each}" for each in sink if each not in both),
    ]


def of_databases(problems: Mapping[str, Sequence[str]]) -> list[str]:
    """The problems of databases, by their paths; one that all of several have is named once."""
    first = next(iter(problems.values()), ())
    of_all = [each for each in first if all(each in own for own in problems.values())]
    common = of_all if len(problems) > 1 else []
    return [
        *common,
        *(
            f"{DATABASES}.{name}.{each}"
            for name, own in problems.items()
            for each in own
            if each not in common
        ),
    ]


def _is_shared(problem: str) -> bool:
    return problem.startswith(tuple(f"{name}{end}" for name in SHARED for end in (".", " ", ":")))
