"""The comma-separated column lists that CDC's procedures take.

Names may be quoted with square brackets or double quotation marks. A doubled closing quote stands
for itself. A name that holds a comma must be quoted. White space around names is ignored.
"""

from __future__ import annotations

from tailrace_emulator import messages

_CLOSING = {"[": "]", '"': '"'}


def split_column_list(text: str) -> list[str]:
    """The names in a column list, unquoted, in the order given.

    Args:
        text: as passed in ``@captured_column_list``.

    Raises:
        SqlError: 22965 when a quoted name has no end.
    """
    names: list[str] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        closing = _CLOSING.get(text[position : position + 1])
        if closing is None:
            end = text.find(",", position)
            end = len(text) if end < 0 else end
            names.append(text[position:end].strip())
            position = end
        else:
            name, position = _quoted(text, position + 1, closing)
            names.append(name)
            while position < len(text) and text[position].isspace():
                position += 1
        if position >= len(text):
            return names
        if text[position] != ",":
            raise messages.error(22965)
        position += 1


def _quoted(text: str, position: int, closing: str) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        end = text.find(closing, position)
        if end < 0:
            raise messages.error(22965)
        parts.append(text[position:end])
        if text[end + 1 : end + 2] != closing:
            return "".join(parts), end + 1
        parts.append(closing)
        position = end + 2
