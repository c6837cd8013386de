"""``python -m bench [NAME] [--json] [options]``: measure next to the ceilings, in one run.

Absolute rates depend on the machine and its other load. Compare the ratios to a ceiling measured in
the same run. Each module has ``run(arguments) -> dict`` and may have ``add_arguments(parser)``. It
is imported only when it is named, because some start a JVM.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

MODULES: Final = {
    "encode": "encode",
    "page_paths": "page_paths",
    "text_paths": "text_paths",
    "emulator": "emulator",
    "publisher": "publisher.rate",
    "publisher_latency": "publisher.latency",
    "publisher_memory": "publisher.memory",
    "publisher_tables": "publisher.tables",
    "publisher_snapshot": "publisher.snapshot",
    "sink": "sink.rate",
    "decoders": "sink.decoders",
    "sink_formats": "sink.formats",
    "sink_start": "sink.start",
    "first_load": "first_load",
    "end_to_end": "end_to_end",
    "verify_load": "verify_load.load",
}
NAMES: Final = tuple(MODULES)
RESULTS: Final = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark, or all, and print what it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, add_help=False)
    parser.add_argument("name", nargs="?", choices=(*NAMES, "all"), default="all")
    parser.add_argument("--json", action="store_true", help="print one JSON object and no more")
    parser.add_argument(
        "--save", action="store_true", help=f"also write {RESULTS.name}/<date>-<name>.json"
    )
    chosen, options = parser.parse_known_args(argv)
    parser.add_argument("-h", "--help", action="help", help="after a name: its options too")
    if chosen.name == "all":
        parser.parse_args(argv)
    names = NAMES if chosen.name == "all" else (chosen.name,)
    modules = {name: importlib.import_module(f"bench.{MODULES[name]}") for name in names}
    # Each has its own parser: two benchmarks may have an option of the same name.
    given = {name: _options(parser, name, module, options) for name, module in modules.items()}
    measured: dict[str, Any] = {}
    for name, module in modules.items():
        result = {"name": name, **_machine(), **module.run(given[name])}
        measured[name] = result
        if chosen.save:
            RESULTS.mkdir(exist_ok=True)
            path = RESULTS / f"{result['date']}-{name}.json"
            path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        if not chosen.json:
            _print(result)
    if chosen.json:
        print(json.dumps(measured if chosen.name == "all" else measured[chosen.name], indent=2))
    return 0


def _options(
    common: argparse.ArgumentParser, name: str, module: ModuleType, options: Sequence[str]
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"{common.prog} {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    return parser.parse_args(options)


def _machine() -> dict[str, Any]:
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
    }


def _print(result: dict[str, Any]) -> None:
    print(result["name"])
    for key, value in result.items():
        if key == "name":
            continue
        shown = f"{value:,}" if isinstance(value, int | float) else value
        print(f"  {key:<34} {shown}")


if __name__ == "__main__":
    sys.exit(main())
