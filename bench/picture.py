"""``python -m bench.picture``: draw the README's picture from the publisher's newest result.

Only results of a run with Debezium are drawn; all bars are of one run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"
PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "publisher.svg"
_BARS: Final = (
    ("publisher_rows_per_s", "Tailrace", "ours"),
    ("function_rows_per_s", "Tailrace, read_mode: function", "ours"),
    ("debezium_direct_tuned_rows_per_s", "Debezium, direct, larger batches", "peer"),
    ("debezium_direct_default_rows_per_s", "Debezium, direct, its defaults", "peer"),
    ("debezium_function_tuned_rows_per_s", "Debezium, function, larger batches", "peer"),
    ("debezium_function_default_rows_per_s", "Debezium, function, its defaults", "peer"),
    ("raw_fetch_rows_per_s", "ceiling: pyodbc fetches the rows", "limit"),
    ("raw_produce_rows_per_s", "ceiling: the same bytes produced", "limit"),
)
_STYLE: Final = (
    ".ours{fill:#2f6fb5}.peer{fill:#c08a2e}.limit{fill:#9aa5b1}text{fill:#1d2733}"
    ".q{fill:#556}@media(prefers-color-scheme:dark){text{fill:#dde}.q{fill:#99a}}"
)
_LEFT, _WIDTH, _STEP = 250, 400, 26


def newest(folder: Path = RESULTS) -> dict[str, Any]:
    """Return the publisher's newest result of a run with Debezium.

    Raises:
        LookupError: no result is of such a run.
    """
    for path in sorted(folder.glob("*-publisher.json"), reverse=True):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if any(name.startswith("debezium_") for name in found):
            return found
    raise LookupError(
        f"no result of python -m bench publisher --debezium --save in {folder}: run it first"
    )


def drawn(result: Mapping[str, Any]) -> str:
    """A result as SVG: a bar for each rate, all on one scale."""
    bars = [(label, kind, result[name]) for name, label, kind in _BARS if name in result]
    most = max(rate for _, _, rate in bars)
    lines = []
    for place, (label, kind, rate) in enumerate(bars):
        y, width = 20 + place * _STEP, max(1, round(_WIDTH * rate / most))
        lines += [
            f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width}" height="18"/>',
            f'<text x="{_LEFT + width + 8}" y="{y + 14}">{rate:,}</text>',
        ]
    under = (
        f"change rows a second, {result['rows']:,} rows of 12 columns, change tables to committed"
        f" topic; one run, {result['cores']} cores, {result['date']}"
    )
    height = 20 + len(bars) * _STEP + 30
    title = "Change rows a second: Tailrace, Debezium and the ceilings of the same run"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}"'
            f' font-family="sans-serif" font-size="13" role="img" aria-label="{title}">',
            f"<style>{_STYLE}</style>",
            *lines,
            f'<text class="q" x="10" y="{height - 12}">{escape(under)}</text>',
            "</svg>",
            "",
        ]
    )


def main() -> int:
    """Draw it."""
    try:
        result = newest()
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    PICTURE.write_text(drawn(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
