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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tailrace.settings.databases import laid_over, lakes_that_are_one, problems_of
from tailrace_service.options.sections import did_you_mean

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig

ENVIRONMENT_PREFIX: Final = "TAILRACE__"
_SECTIONS: Final = ("publisher", "sink")
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
_SHARED: Final = ("kafka", "registry", "prefix", "tracing")
_DATABASES: Final = "databases"
_KNOWN_SECTIONS: Final = (
    "the sections are publisher, sink, and kafka, registry, prefix, tracing as defaults of both,"
    " and databases"
)

Options = dict[str, Any]


class SettingsError(Exception):
    """The configuration is not usable.

    Attributes:
        problems: one sentence per wrong option, with its full path, its bounds and the fix.
    """

    retryable = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Settings:
    """The merged options of both sections, not yet checked against the rooms' own models.

    Attributes:
        publisher_options: of the section publisher.
        sink_options: of the section sink.
        databases: those of each of several databases, by what it is called; empty where the
            configuration is of one.
        name: what its database is called, where it is one of several.
    """

    publisher_options: Options
    sink_options: Options
    databases: Mapping[str, Settings] = field(default_factory=dict)
    name: str = ""

    @property
    def has_publisher(self) -> bool:
        """Whether there is anything to configure a publisher with."""
        return "source" in self.publisher_options

    @property
    def has_sink(self) -> bool:
        """Whether there is anything to configure a sink with."""
        return "lake" in self.sink_options

    def publisher(self) -> PublisherConfig:
        """The checked publisher configuration.

        Raises:
            SettingsError: names every wrong option.
        """
        from tailrace_publisher.errors import ConfigError
        from tailrace_publisher.options.publisher_config import PublisherConfig

        try:
            return PublisherConfig.load(self.publisher_options)
        except ConfigError as error:
            raise SettingsError(self._of_section("publisher", error.problems)) from None

    def publishers(self) -> dict[str, PublisherConfig]:
        """The checked configurations of all databases, which can be published side by side.

        Raises:
            SettingsError: names every wrong option of every database.
        """
        from tailrace_publisher.daemon.process.separate_databases import problems_of as not_apart

        configs: dict[str, PublisherConfig] = {}
        problems: list[str] = []
        for name, settings in self.databases.items():
            try:
                configs[name] = settings.publisher()
            except SettingsError as error:
                problems.extend(error.problems)
        problems = problems or not_apart(configs)
        if problems:
            raise SettingsError(problems)
        return configs

    def sink(self) -> SinkConfig:
        """The checked sink configuration.

        Raises:
            SettingsError: names every wrong option.
        """
        from tailrace_sink.errors import ConfigError
        from tailrace_sink.options.config import SinkConfig

        try:
            return SinkConfig.load(self.sink_options)
        except ConfigError as error:
            raise SettingsError(self._of_section("sink", error.problems)) from None

    def _of_section(self, section: str, problems: Sequence[str]) -> list[str]:
        place = f"{_DATABASES}.{self.name}.{section}" if self.name else section
        return [f"{place}.{problem}" for problem in problems]

    def check(self) -> None:
        """Check whatever is configured, both sections together.

        Raises:
            SettingsError: names every wrong option of both.
        """
        problems: list[str] = []
        for present, build in ((self.has_publisher, self.publisher), (self.has_sink, self.sink)):
            if present:
                try:
                    build()
                except SettingsError as error:
                    problems.extend(error.problems)
        if problems:
            raise SettingsError(problems)


def load(path: Path | None, environment: Mapping[str, str], flags: Sequence[str] = ()) -> Settings:
    """Merge file, environment and ``option.path=value`` flags.

    Raises:
        SettingsError: the file cannot be read or is not a mapping, a section is unknown, or a flag
            has no value.
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
    known = (*_SECTIONS, *_SHARED, _DATABASES)
    problems.extend(
        f"{name} is not a section: {did_you_mean(str(name), known) or _KNOWN_SECTIONS}"
        for name in sorted(options.keys() - {*known}, key=str)
    )
    problems.extend(
        f"{section} is not a mapping. Fix: write its options below it, as option: value"
        for section in _SECTIONS
        if not isinstance(options.get(section) or {}, dict)
    )
    if _DATABASES in options:
        problems.extend(problems_of(options[_DATABASES], (*_SECTIONS, *_SHARED)))
    if problems:
        raise SettingsError(problems)
    common = {section: _with_shared(options, section) for section in _SECTIONS}
    databases = _of_databases(common, options.get(_DATABASES) or {})
    problems.extend(lakes_that_are_one({n: one.sink_options for n, one in databases.items()}))
    if problems:
        raise SettingsError(problems)
    return Settings(common["publisher"], common["sink"], databases)


def _of_databases(
    common: Mapping[str, Options], databases: Mapping[str, Options | None]
) -> dict[str, Settings]:
    """The merged options of each of several databases."""
    found = {}
    for name, given in databases.items():
        own = {section: _with_shared(given or {}, section) for section in _SECTIONS}
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
    names = options.get(_DATABASES)
    if keys[0] != _DATABASES or len(keys) < 2 or not isinstance(names, dict):
        return keys
    found = [name for name in names if str(name).casefold() == keys[1].casefold()]
    for name in found:
        if names[name] is None:
            names[name] = {}
    return [keys[0], *found[:1], *keys[2:]] if found else keys


def _with_shared(options: Options, section: str) -> Options:
    own = dict(options.get(section) or {})
    for name in _SHARED:
        if name not in options:
            continue
        shared, given = options[name], own.get(name)
        if isinstance(shared, dict) and isinstance(given or {}, dict):
            own[name] = {**shared, **(given or {})}
        else:
            own.setdefault(name, shared)
    return own
