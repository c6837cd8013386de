"""What commands share: the options that name the configuration, and how a command fails."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, NoReturn, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings, SettingsError
    from tailrace_publisher.options.kafka import KafkaConfig
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig

_P = ParamSpec("_P")
_T = TypeVar("_T")
DEFAULT_FILE: Final = Path("tailrace.yaml")
"""What `init` writes, and what every other command reads unless --config names another file."""

_config = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help=f"Configuration file. Default: {DEFAULT_FILE} in this folder, if it exists.",
)
_database = click.option(
    "--database",
    metavar="NAME",
    help="The database to use, if the file has several (section databases).",
)
_set = click.option(
    "--set",
    "flags",
    multiple=True,
    metavar="OPTION.PATH=VALUE",
    help="Override an option, e.g. --set publisher.source.port=1433. Repeatable.",
)

LOG_FORMAT = click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(("text", "json")),
    envvar="TAILRACE_LOG_FORMAT",
    show_envvar=True,
    help="Lines for people, or one JSON object per line (docs/events.md).",
)


def configured(command: Callable[Concatenate[Configuration, _P], None]) -> Callable[..., None]:
    """Pass a command its `Configuration`, and add the options that name it."""

    @functools.wraps(command)
    def run(
        config: Path | None,
        database: str | None,
        flags: tuple[str, ...],
        *args: _P.args,
        **given: _P.kwargs,
    ) -> None:
        configuration = Configuration(config, database, flags)
        click.get_current_context().find_root().obj = configuration
        command(configuration, *args, **given)

    return _config(_database(_set(run)))


class Configuration:
    """The configuration of a command: read at first use, so that wrong usage is reported first.

    Every property ends the command with 2 if the configuration is not usable.

    Args:
        file: None for the default file, or for none if that does not exist.
        database: the one of several that --database names, in any case.
    """

    def __init__(self, file: Path | None, database: str | None, flags: tuple[str, ...]) -> None:
        self._file = DEFAULT_FILE if file is None and DEFAULT_FILE.is_file() else file
        self._database = database
        self._flags = flags

    @cached_property
    def settings(self) -> Settings:
        """The options of one database, with a source; not checked."""
        return self._of_one("publisher", "source")

    @cached_property
    def publisher(self) -> PublisherConfig:
        """The checked publisher of one database."""
        return checked(self.settings.publisher)

    @property
    def kafka_if_read(self) -> KafkaConfig | None:
        """The brokers of one database; None if its publisher was not read."""
        config: PublisherConfig | None = self.__dict__.get("publisher")
        return None if config is None else config.kafka

    @cached_property
    def sink(self) -> SinkConfig:
        """The checked sink of one database."""
        return checked(self._of_one("sink", "lake").sink)

    @property
    def sink_if_any(self) -> SinkConfig | None:
        """The checked sink of a database with a source; None if none is configured."""
        return self.sink if self.settings.has_sink else None

    @cached_property
    def publishers(self) -> dict[str, PublisherConfig] | None:
        """The checked publishers of all databases; None if one database is configured or chosen."""
        return checked(self._chosen.publishers) if self._chosen.databases else None

    @property
    def all_settings(self) -> Settings:
        """The options of the chosen database, or of all with a source; not checked."""
        return self._chosen if self._chosen.databases else self.settings

    def check(self) -> None:
        """Check publisher and sink together, as far as they are configured."""
        checked(self.settings.check)

    @cached_property
    def _chosen(self) -> Settings:
        """Options of the database that --database names; of all databases without it."""
        from tailrace.settings.load import load

        settings = checked(lambda: load(self._file, os.environ, self._flags))
        name = self._database
        if name is None:
            return settings
        for known, options in settings.databases.items():
            if known.casefold() == name.casefold():
                return options
        there = ", ".join(settings.databases) or "none, as there is no section databases"
        _refuse(f"--database {name}: the configuration has {there}")

    def _of_one(self, section: str, needs: str) -> Settings:
        settings = self._chosen
        if settings.databases:
            _refuse(f"there are several databases. Fix: --database {'|'.join(settings.databases)}")
        present = settings.publisher_options if section == "publisher" else settings.sink_options
        if needs not in present and self._file is None:
            _refuse(
                f"{section}.{needs} is missing, and there is no {DEFAULT_FILE} in this folder."
                " Fix: write one with tailrace init, or name a file with --config"
            )
        if needs not in present:
            _refuse(
                f"{section}.{needs} is missing in {self._file}. Fix: add it there, or set it in the"
                " environment or with --set"
            )
        return settings


def checked(build: Callable[[], _T]) -> _T:
    """What a part of the configuration builds; ends the command with 2 if it is not usable."""
    from tailrace.settings.settings import SettingsError

    try:
        return build()
    except SettingsError as error:
        fail_settings(error)


def _refuse(problem: str) -> NoReturn:
    from tailrace.settings.settings import SettingsError

    fail_settings(SettingsError([problem]))


@contextmanager
def failing_with(*errors: type[Exception], named: bool = False) -> Iterator[None]:
    """End the command with 1 if the block raises one of some errors.

    Prints the error's text; with ``named``, the name of its class first.
    """
    try:
        yield
    except errors as error:
        fail(f"{type(error).__name__}: {error}" if named else str(error))


def fail_settings(error: SettingsError) -> NoReturn:
    """End the command with 2: the configuration is not usable."""
    from tailrace.reading.terminal import shown

    problems = [shown(problem, lines=True) for problem in error.problems]
    if len(problems) == 1:
        click.echo(f"The configuration is not usable: {problems[0]}", err=True)
    else:
        click.echo("The configuration is not usable:", err=True)
        for problem in problems:
            click.echo(f"  - {problem}", err=True)
    sys.exit(2)


def fail(text: str) -> NoReturn:
    """End the command with 1 and a sentence."""
    from tailrace.reading.terminal import shown

    click.echo(shown(text, lines=True), err=True)
    sys.exit(1)
