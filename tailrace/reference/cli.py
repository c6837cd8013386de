"""docs/cli.md, generated from the commands, so that the two cannot differ.

``python -m tailrace.reference.cli docs/cli.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from tailrace.cli.root import SECTIONS, cli

_HEAD: Final = """# Commands

{summary}

This page is generated: `python -m tailrace.reference.cli docs/cli.md`.

Commands that read the configuration have three options in common:

{shared}

They end with 2 if the configuration is not usable, and with 1 if they fail.
"""
_SHARED: Final = ("config", "database", "flags")


def document() -> str:
    """Return the page's text."""
    root = click.Context(cli, info_name="tailrace")
    shared = _options(root, [p for p in cli.commands["status"].params if p.name in _SHARED])
    parts = [_HEAD.format(summary=cli.get_short_help_str(200), shared=shared)]
    for title, commands in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_section(click.Context(c, root, info_name=c.name), c) for c in commands]
    return "\n".join(parts)


def _section(context: click.Context, command: click.Command) -> str:
    usage = " ".join(["tailrace", str(command.name), *command.collect_usage_pieces(context)])
    paragraphs = [f"### tailrace {command.name}", f"```\n{usage}\n```"]
    paragraphs.append(inspect.cleandoc(command.help or ""))
    own = command.params
    if any(param.name == "config" for param in own):
        own = [param for param in own if param.name not in _SHARED]
        paragraphs.append("Reads the configuration.")
    paragraphs.append(_options(context, own))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _options(context: click.Context, params: Iterable[click.Parameter]) -> str:
    """Return a list of options, with their help as the command prints it."""
    options = (param for param in params if isinstance(param, click.Option))
    records = (option.get_help_record(context) for option in options)
    return "\n".join(f"- `{name}`: {text}" for name, text in filter(None, records))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all commands.")
    parser.add_argument("page", type=Path, help="docs/cli.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
