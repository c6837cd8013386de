"""What the commands share: the options that name the configuration, and how they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from tailrace.reading.terminal import shown
from tailrace.settings.load import Settings, SettingsError, load

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DATABASE = "tailrace.database"
_config = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_CONFIG",
    help="YAML file with the sections publisher and sink (docs/configuration.md).",
)


def _keep_database(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta[_DATABASE] = name


_database = click.option(
    "--database",
    metavar="NAME",
    expose_value=False,
    callback=_keep_database,
    help="The one that is meant, where the file has several (section databases).",
)


def CONFIG(command: _Command) -> _Command:  # noqa: N802 - read as the option that it is
    """The file, and which of its databases is meant."""
    return _config(_database(command))


SET = click.option(
    "--set",
    "flags",
    multiple=True,
    metavar="OPTION.PATH=VALUE",
    help="Overrides one option of the file and of the environment, e.g."
    " --set publisher.source.port=1433; may be repeated.",
)

LOG_FORMAT = click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(("text", "json")),
    envvar="TAILRACE_LOG_FORMAT",
    help="Lines for people, or one JSON object a line (docs/events.md).",
)


def settings_of(config: Path | None, flags: tuple[str, ...], section: str, needs: str) -> Settings:
    """The merged configuration of one database; ends the command where the section is not there."""
    settings = _chosen(_loaded(config, flags))
    if settings.databases:
        _refuse(
            f"there are several databases, {', '.join(settings.databases)}: name one with"
            " --database"
        )
    present = settings.publisher_options if section == "publisher" else settings.sink_options
    if needs not in present:
        _refuse(
            f"{section}.{needs} is missing: name a file with --config, or set it with"
            f" --set {section}.{needs}..., or in the environment"
        )
    return settings


def all_settings(config: Path | None, flags: tuple[str, ...]) -> Settings | None:
    """The merged configuration, where it is of several databases and all of them are meant."""
    settings = _chosen(_loaded(config, flags))
    return settings if settings.databases else None


def _loaded(config: Path | None, flags: tuple[str, ...]) -> Settings:
    try:
        return load(config, os.environ, flags)
    except SettingsError as error:
        fail_settings(error)


def _chosen(settings: Settings) -> Settings:
    """That of the database which --database names; of all, where it names none."""
    name = click.get_current_context().meta.get(_DATABASE)
    if name is None:
        return settings
    found = [one for key, one in settings.databases.items() if key.casefold() == name.casefold()]
    if not found:
        known = ", ".join(settings.databases) or "none, there is no section databases"
        _refuse(f"--database {name}: the configuration has {known}")
    return found[0]


def _refuse(problem: str) -> NoReturn:
    fail_settings(SettingsError([problem]))


def check_options(build: Any) -> Any:
    """What a section of the configuration builds; ends the command where it is not usable."""
    try:
        return build()
    except SettingsError as error:
        fail_settings(error)


@contextmanager
def failing_with(*errors: type[Exception], named: bool = False) -> Iterator[None]:
    """Ends the command with 1 and the text of such an error, where the block raises one.

    Args:
        errors: their classes.
        named: whether the class is told, too.
    """
    try:
        yield
    except errors as error:
        fail(f"{type(error).__name__}: {error}" if named else str(error))


def fail_settings(error: SettingsError) -> NoReturn:
    """End the command with 2: the configuration is not usable."""
    click.echo("The configuration is not usable:", err=True)
    for problem in error.problems:
        click.echo(f"  - {shown(problem, lines=True)}", err=True)
    sys.exit(2)


def fail(text: str) -> NoReturn:
    """End the command with 1 and a sentence."""
    click.echo(shown(text, lines=True), err=True)
    sys.exit(1)
