"""The report of ``tailrace verify`` as one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from tailrace.reading.terminal import shown
from tailrace.verify.report import result_lines
from tailrace.verify.row_differences import Kind
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import Verification

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1e21; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d5d8dc; text-align: right;
  font-variant-numeric: tabular-nums; vertical-align: top; overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: left; }
.values td, .values th { text-align: left; }
.equal { color: #1b6b32; }
.different { color: #a4161a; }
.unproven { color: #8a5300; }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #16181b; }
  th, td { border-color: #3a3f45; } .equal { color: #7ddc97; } .different { color: #ff9b9b; }
  .unproven { color: #f2c14e; } }
"""
_HEADINGS: Final = (
    "table",
    "result",
    "source rows",
    "lake rows",
    *(kind.value for kind in Kind),
    "unsettled",
    "not examined",
    "ranges",
    "of them read",
    "rows read",
    "source s",
    "lake s",
    "total s",
    "LSN of the cut",
)


def verification_page(found: Verification, written: str) -> str:
    """Return the page.

    Args:
        written: when the comparison ended, as text.
    """
    title = f"{shown(found.database)} and its lake"
    rows = "".join(_row(map(escape, _cells(table))) for table in found.tables)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{_verdict(found)}</p>"
        f"<p>Lake {escape(shown(found.lake))}, {escape(written)}.</p>"
        f"<table><thead>{_row(_HEADINGS, 'th')}</thead><tbody>{rows}</tbody></table>"
        f"{''.join(map(_examples, found.tables))}{_notes(found)}</body></html>\n"
    )


def _verdict(found: Verification) -> str:
    if found.differs:
        return '<strong class="different">Rows differ.</strong>'
    if found.is_proven:
        return '<strong class="equal">All rows are equal.</strong>'
    return '<strong class="unproven">No row differs, but some could not be compared.</strong>'


def _cells(table: TableResult) -> list[str]:
    result = "different" if table.differs else "equal" if table.is_proven else "not proven"
    counts = [
        table.source_rows,
        table.lake_rows,
        *(table.differing[kind.value] for kind in Kind),
        table.unsettled,
        table.not_examined,
        table.ranges,
        table.ranges_differing,
        table.rows_read,
    ]
    seconds = [f"{part:.1f}" for part in (table.source_s, table.lake_s, table.seconds)]
    return [shown(table.table), result, *(f"{n:,}" for n in counts), *seconds, table.lsn or "-"]


def _examples(table: TableResult) -> str:
    """Return the first differing rows of a table."""
    if not table.examples:
        return ""
    rows = []
    for found in table.examples:
        key = ", ".join(f"{shown(name)} = {_text(text)}" for name, text in found.key.items())
        if found.kind is not Kind.VALUE:
            rows.append([key, f"{found.kind.value} ({found.rows:,} rows)"])
        rows += [
            [key, "value", shown(column), _text(ours), _text(theirs)]
            for column, (ours, theirs) in found.columns.items()
        ]
    body = "".join(_row(escape(cell) for cell in [*row, "", "", ""][:5]) for row in rows)
    head = _row(("key", "difference", "column", "source", "lake"), "th")
    return (
        f'<h2>{escape(shown(table.table))}</h2><table class="values"><thead>{head}</thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _notes(found: Verification) -> str:
    """Return what was not compared, and which further rows differ."""
    lines = result_lines(found.tables, with_examples=False)
    items = "".join(f"<li>{escape(line.removeprefix('- '))}</li>" for line in lines)
    return f"<h2>Notes</h2><ul>{items}</ul>" if items else ""


def _text(text: str | None) -> str:
    return "NULL" if text is None else shown(text, lines=True)


def _row(cells: Iterable[str], kind: str = "td") -> str:
    return "<tr>" + "".join(f"<{kind}>{cell}</{kind}>" for cell in cells) + "</tr>"
