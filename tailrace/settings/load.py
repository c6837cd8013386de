"""One configuration for the whole pipeline: a YAML file, environment, flags, in rising precedence.

The file has the sections ``publisher`` and ``sink``; ``kafka``, ``registry``, ``prefix`` and
``tracing`` at its top are defaults of both. The environment names an option by its path with double
underscores (``TAILRACE__PUBLISHER__SOURCE__PASSWORD``), a flag by its path with dots
(``--set publisher.source.port=1433``). Names with dots are one part of a path
(``--set kafka.extra.sasl.username=cdc``, ``TAILRACE__KAFKA__EXTRA__SASL_PASSWORD``).
The section ``databases`` has what differs for each of several (:mod:`tailrace.settings.databases`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tailrace.settings.databases import Options, laid_over, lakes_that_are_one, problems_of
from tailrace.settings.problems import (
    DATABASES,
    SECTIONS,
    SHARED,
    section_problems,
    without_follow_ups,
)
from tailrace.settings.settings import Settings, SettingsError

ENVIRONMENT_PREFIX: Final = "TAILRACE__"
_TEXT: Final = frozenset(
    {"password", "token", "client_key_password", "salt", "access_key", "secret_key"}
    | {"session_token"}
)
"""Options that are text whatever they look like ("0123", "yes")."""
_TEXTS: Final = frozenset({"extra", "odbc", "topic_settings", "headers"})
"""Options whose own options are."""
_KAFKA_NAMES: Final = frozenset({"extra", "extra_files", "topic_settings"})
_NAMED: Final = _KAFKA_NAMES | {"odbc", "message_keys", "lossless_columns"}
"""Options whose own keys are names from elsewhere, which may have dots."""


def load(path: Path | None, environment: Mapping[str, str], flags: Sequence[str] = ()) -> Settings:
    """Merge file, environment and ``option.path=value`` flags.

    Raises:
        SettingsError: the file cannot be read or is not a mapping, a section is unknown, or a flag
            has no value. It names every wrong option, too.
    """
    options = _read(path) if path is not None else {}
    problems: list[str] = []
    for name, text in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            parts = [part.lower() for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__")]
            keys = _path(parts, is_shell=True)
            _assign(options, keys, text, problems, name)
    for flag in flags:
        option, separator, text = flag.partition("=")
        if not separator:
            problems.append(f"--set {flag}: write it as option.path=value")
            continue
        keys = _path(option.strip().split("."))
        _assign(options, keys, text, problems, f"--set {option}")
    problems += section_problems(options)
    given = options.get(DATABASES)
    if DATABASES in options:
        problems += problems_of(given, (*SECTIONS, *SHARED))
    common = {section: _with_shared(options, section) for section in SECTIONS}
    databases = _of_databases(common, given if isinstance(given, dict) else {})
    problems += lakes_that_are_one({n: one.sink_options for n, one in databases.items()})
    settings = Settings(common["publisher"], common["sink"], databases)
    if problems:
        raise SettingsError(without_follow_ups(problems, settings.problems()))
    return settings


def _of_databases(
    common: Mapping[str, Options], databases: Mapping[Any, Any]
) -> dict[str, Settings]:
    """The merged options of each of several databases; those that are none are left out."""
    found = {}
    for name, given in databases.items():
        if not isinstance(name, str) or not isinstance(given or {}, dict):
            continue
        own = {section: _with_shared(given or {}, section) for section in SECTIONS}
        publisher, sink = laid_over(common, name, own)
        found[name] = Settings(publisher, sink, name=name)
    return found


def _read(path: Path) -> Options:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problem = f"{path} does not exist. Fix: tailrace init {path}, or name another file"
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror}). Fix: name a file that is readable"
    except UnicodeDecodeError:
        problem = f"{path} is not text in UTF-8. Fix: save it as UTF-8"
    except yaml.YAMLError as error:
        problem = f"{path} is not YAML: {_yaml_problem(error)}. Fix: correct it there"
    else:
        if isinstance(loaded, dict):
            return loaded
        problem = f"{path} is not a mapping. Fix: give it the sections publisher and sink"
    raise SettingsError([problem])


def _yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong and where, without the line itself: there may be a password in it."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it has characters that YAML does not allow"
    mark = error.problem_mark
    where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
    return f"{error.problem}{where}"


def _path(parts: list[str], *, is_shell: bool = False) -> list[str]:
    """The keys of a path, with the names that have dots as one key.

    Args:
        is_shell: whether a shell was to name it, which knows no dots: Kafka's names have no
            underscores, so these stand for dots in them.
    """
    for place, part in enumerate(parts[:-1], 1):
        if part in _NAMED:
            name = ".".join(parts[place:])
            is_kafka = is_shell and part in _KAFKA_NAMES
            return [*parts[:place], name.replace("_", ".") if is_kafka else name]
    return parts


def _value(keys: Sequence[str], text: str) -> Any:
    is_text = keys[-1] in _TEXT or {*keys[:-1]} & _TEXTS
    return text if is_text else yaml.safe_load(text)


def _assign(
    options: Options, keys: Sequence[str], text: str, problems: list[str], origin: str
) -> None:
    try:
        value = _value(keys, text)
    except yaml.YAMLError as error:
        problems.append(f"{origin} is not YAML: {_yaml_problem(error)}")
        return
    place: Any = options
    for key in _as_spelled(options, keys)[:-1]:
        if place.get(key) is None:  # it is missing, or the file names it without a value
            place[key] = {}
        place = place[key]
        if not isinstance(place, dict):
            problems.append(f"{origin}: {key} is a value, not a section")
            return
    place[keys[-1]] = value


def _as_spelled(options: Options, keys: Sequence[str]) -> Sequence[str]:
    """The keys of a path with the name of a database as it is in the file: shells use capitals."""
    names = options.get(DATABASES)
    if keys[0] != DATABASES or len(keys) < 2 or not isinstance(names, dict):
        return keys
    found = [name for name in names if str(name).casefold() == keys[1].casefold()]
    for name in found:
        if names[name] is None:
            names[name] = {}
    return [keys[0], *found[:1], *keys[2:]] if found else keys


def _with_shared(options: Options, section: str) -> Options:
    given = options.get(section)
    own = dict(given) if isinstance(given, dict) else {}
    for name in SHARED:
        if name not in options:
            continue
        shared, given = options[name], own.get(name)
        if isinstance(shared, dict) and isinstance(given or {}, dict):
            own[name] = {**shared, **(given or {})}
        else:
            own.setdefault(name, shared)
    return own
