"""Conditions given as an option, which must stay within the parentheses around them.

A condition is the operator's own SQL, and the server checks whether it is right. The check here
refuses what would change the statement around the condition:

- a comment that hides what follows
- a parenthesis that closes ours
- a text that does not end
- a question mark, which the driver takes for a parameter

https://learn.microsoft.com/sql/t-sql/language-elements/comment-transact-sql
https://learn.microsoft.com/sql/relational-databases/databases/database-identifiers
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_TOKEN: Final = re.compile(
    r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|\[(?:[^\]]|\]\])*+\]|--|/\*|\*/|.", re.DOTALL
)
"""A text, a name in quotation marks or brackets, a mark of a comment, or any other character."""
_REFUSED: Final = {
    "--": "a comment hides what follows it",
    "/*": "a comment hides what follows it",
    "*/": "it ends a comment that did not begin",
    ";": "it ends the statement",
    "?": "it stands for a parameter, and there is none",
    "\0": "it is no character of a statement",
    "'": "the text that begins there does not end",
    '"': "the name that begins there does not end",
    "[": "the name that begins there does not end",
}


def shape_of(condition: str) -> str:
    """Return a condition as logs show it: recognisable, but without the values in it."""
    digest = hashlib.sha256(condition.encode()).hexdigest()[:8]
    return f"{len(condition)} characters, sha256 {digest}"


def check_condition(text: str) -> None:
    """Check that a condition ends with its text, whatever follows it.

    Raises:
        ValueError: it does not; the text says what is wrong and where.
    """
    if not text.strip():
        raise ValueError("it is empty. Fix: set a condition, or remove the pattern")
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        depth += {"(": 1, ")": -1}.get(token, 0)
        why = "it closes what was not opened" if depth < 0 else _REFUSED.get(token)
        if why is not None:
            raise ValueError(f"{token!r} at character {match.start() + 1}: {why}")
    if depth:
        raise ValueError(f"{depth} of its parentheses are not closed")
