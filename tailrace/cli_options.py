"""What the commands share: the options that name the configuration, and how they fail."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from tailrace.settings import Settings, SettingsError, load
from tailrace.terminal import shown

CONFIG = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_CONFIG",
    help="YAML file with the sections publisher and sink (docs/configuration.md).",
)
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
    """The merged configuration; ends the command where the section is not there."""
    try:
        settings = load(config, os.environ, flags)
    except SettingsError as error:
        fail_settings(error)
    present = settings.publisher_options if section == "publisher" else settings.sink_options
    if needs not in present:
        fail_settings(
            SettingsError(
                [
                    f"{section}.{needs} is missing: name a file with --config, or set it with"
                    f" --set {section}.{needs}..., or in the environment"
                ]
            )
        )
    return settings


def check_options(build: Any) -> Any:
    """What a section of the configuration builds; ends the command where it is not usable."""
    try:
        return build()
    except SettingsError as error:
        fail_settings(error)


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
