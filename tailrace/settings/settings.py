"""The merged options of publisher and sink, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.settings.databases import Options
from tailrace.settings.problems import named_once, of_databases

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig


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
            SettingsError: names every wrong option, those of the sink included.
        """
        from tailrace_publisher.errors import ConfigError
        from tailrace_publisher.options.publisher_config import PublisherConfig

        try:
            return PublisherConfig.load(self.publisher_options)
        except ConfigError as error:
            problems = named_once(error.problems, self._sink_problems())
            raise SettingsError(self._of_database(problems)) from None

    def publishers(self) -> dict[str, PublisherConfig]:
        """The checked configurations of all databases, which can be published side by side.

        Raises:
            SettingsError: names every wrong option of every database.
        """
        from tailrace_publisher.daemon.process.separate_databases import problems_of as not_apart

        self.check()
        configs = {name: settings.publisher() for name, settings in self.databases.items()}
        problems = not_apart(configs)
        if problems:
            raise SettingsError(problems)
        return configs

    def sink(self) -> SinkConfig:
        """The checked sink configuration.

        Raises:
            SettingsError: names every wrong option, those of the publisher included.
        """
        from tailrace_sink.errors import ConfigError
        from tailrace_sink.options.config import SinkConfig

        try:
            return SinkConfig.load(self.sink_options)
        except ConfigError as error:
            problems = named_once(self._publisher_problems(), error.problems)
            raise SettingsError(self._of_database(problems)) from None

    def check(self) -> None:
        """Check whatever is configured, of all databases if there are several.

        Raises:
            SettingsError: names every wrong option.
        """
        problems = self.problems()
        if problems:
            raise SettingsError(problems)

    def problems(self) -> list[str]:
        """One sentence per wrong option of what is configured, with its path."""
        if self.databases:
            found = {name: settings.own_problems() for name, settings in self.databases.items()}
            return of_databases(found)
        return self._of_database(self.own_problems())

    def own_problems(self) -> list[str]:
        """The same of one database, with paths below its name."""
        return named_once(self._publisher_problems(), self._sink_problems())

    def _publisher_problems(self) -> Sequence[str]:
        """Those of a publisher, if one is configured."""
        from tailrace_publisher.errors import ConfigError
        from tailrace_publisher.options.publisher_config import PublisherConfig

        try:
            if self.has_publisher:
                PublisherConfig.load(self.publisher_options)
        except ConfigError as error:
            return error.problems
        return ()

    def _sink_problems(self) -> Sequence[str]:
        """Those of a sink, if one is configured."""
        from tailrace_sink.errors import ConfigError
        from tailrace_sink.options.config import SinkConfig

        try:
            if self.has_sink:
                SinkConfig.load(self.sink_options)
        except ConfigError as error:
            return error.problems
        return ()

    def _of_database(self, problems: Sequence[str]) -> list[str]:
        return of_databases({self.name: problems}) if self.name else list(problems)
