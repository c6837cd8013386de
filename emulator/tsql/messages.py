"""What the parser says of errors; the catalogue is ``emulator.messages``.

``compile_error`` goes when the texts in ``syntax`` are taken from the catalogue too.
"""

from __future__ import annotations

from emulator.errors import Aborts, SqlError
from emulator.messages import keyword_syntax, nested_too_deeply, syntax

__all__ = ["compile_error", "keyword_syntax", "nested_too_deeply", "syntax"]


def compile_error(number: int, text: str, *, severity: int = 16, line: int = 1) -> SqlError:
    """An error found before its statement runs: it ends what was compiled, not its caller."""
    return SqlError(number, text, severity=severity, line=line, aborts=Aborts.SCOPE)
