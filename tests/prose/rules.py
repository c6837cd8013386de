"""What a program can find of the rules of our English: words, long sentences, wide lines.

A text is prose in Markdown, a docstring, or a constant with a space in it: option descriptions,
error texts, strings of the command line. Code between backticks is none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WORDS_MAX = 25
COLUMNS_MAX = 100

# Lag, and nothing else: "is behind" alone would let "the closed LSN is behind its start" through.
_LAG = r"(?:\d|\b(?:lag|lags|s|seconds|minutes|hours|far|furthest|fall|falls|fell|fallen|left))"

# The word, what to write instead, and what it is no fault in.
_WORDS = (
    (r"\bbehind\b", "after, past, later than; `behind` only for lag", rf"{_LAG} behind\b"),
    (r"\b(?:tells?|told|telling)\b", "report, log, print, show", r"\btell\w* apart\b"),
    (r"\banew\b", "again, from scratch", None),
    (r"\b(?:go|goes|going|went|gone) on\b", "continue, resume", None),
    (r"\bmend(?:s|ed|ing)?\b", "fix", None),
    (r"\bbeside\b", "alongside, next to, in addition to", None),
    (r"\b(?:is|are|was|were|be) out\b", "is published", r"\bout of\b"),
    (r"\bwhoever\b", "the operator, anyone who", None),
    (r"\bby itself\b", "automatically, alone", None),
    (r"\bjoints?\b", "stage", None),
    (r"\b(?:is|are|was|were|be|been) made\b", "created", r"\bmade up\b"),
    (r"\bmade (?:of|from|by|again)\b", "created from, built from", None),
    (r"\basks\b", "queries, requests", None),
    (r"\bto be had\b", "is available", None),
    (r"\bstands? in\b", "is in", None),
    (r"\b(?:put|puts|putting) aside\b", "stored", None),
    (r"\bbegun\b", "started", None),
    (r"\bmid-day\b|\bmidst\b", "during", None),
    (r"\b(?:has|have|had|having) (?:it|them)\b", "makes, causes", None),
    (r"\b(?:take|takes|took|taken|taking) in\b", "discovers, adds", None),
)
WORDS = tuple(
    (re.compile(word, re.IGNORECASE), instead, re.compile(no, re.IGNORECASE) if no else None)
    for word, instead, no in _WORDS
)
_ANY = re.compile("|".join(f"(?:{word})" for word, *_ in _WORDS), re.IGNORECASE)
# An entry of three words says no more than the name: "config: the options."
_ENTRY = re.compile(r"^\s{4,}(\w+): ((?:\S+ ){0,2}\S+)\.$", re.MULTILINE)
# Entries that name the source of a belief about a server.
_SOURCES = frozenset({"See", "Inferred"})
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# The third is where an entry of Args or Attributes starts, after the end of the one before.
_BETWEEN = re.compile(
    r"[.!?:;][*\"')`]*\s+(?=[A-Z0-9\"'`*(\[])|\n\s*\n|[.:]\n\s+(?=\w+(?:, \w+)*: )"
    r"|\n\s*(?=[-*|#]\s|\d+\. )"
)


@dataclass(frozen=True)
class Fault:
    """One place to rewrite."""

    line: int
    text: str
    instead: str


def faults(path: Path) -> list[Fault]:
    """Every fault of a page or a module, in the order of its lines."""
    text = path.read_text(encoding="utf-8")
    found = page_faults(text) if path.suffix == ".md" else module_faults(text)
    return sorted(found, key=lambda fault: fault.line)


def page_faults(text: str) -> Iterator[Fault]:
    """Faults of Markdown: words, sentences and lines outside code, tables and link targets."""
    # Code goes, its lines stay: a fault keeps its number.
    text = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"(?m)^(?: {4,}|\t).*$", "", text)
    plain = _LINK.sub(r"\1", text)
    for number, line in enumerate(plain.splitlines(), 1):
        yield from word_faults(line, number)
        if len(line) > COLUMNS_MAX and not line.lstrip().startswith("|"):
            yield Fault(number, f"{len(line)} columns", "one sentence a line")
    prose = re.sub(r"(?m)^ *\|.*$", "", plain)
    yield from sentence_faults(prose, 1)


def module_faults(text: str) -> Iterator[Fault]:
    """Faults of a module: words in its texts, and sentences and entries of its docstrings."""
    tree = ast.parse(text)
    docs = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if node.body else None
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
                docs[id(doc.value)] = doc.value
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in docs or " " in node.value.strip():
            yield from word_faults(node.value, node.lineno)
    for node in docs.values():
        if isinstance(node.value, str):
            yield from sentence_faults(node.value, node.lineno)
            for entry in _ENTRY.finditer(node.value):
                if entry[1] in _SOURCES:  # of a belief: it names a page
                    continue
                line = node.lineno + node.value[: entry.start(1)].count("\n")
                yield Fault(line, f"{entry[1]}: {entry[2]}.", "delete an entry that says the name")


def word_faults(text: str, line: int) -> Iterator[Fault]:
    """Words to replace."""
    if not _ANY.search(text):
        return
    text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    for word, instead, none_in in WORDS:
        for found in word.finditer(text):
            around = text[max(0, found.start() - 12) : found.end() + 6]
            if not none_in or not none_in.search(around):
                yield Fault(line + text[: found.start()].count("\n"), found[0], instead)


def sentence_faults(text: str, line: int) -> Iterator[Fault]:
    """Sentences of more words than a reader keeps together."""
    start = 0
    for end in (*_BETWEEN.finditer(text), None):
        sentence = text[start : end.start() if end else len(text)]
        words = len([word for word in sentence.split() if re.search(r"\w", word)])
        if words > WORDS_MAX:
            first = start + len(sentence) - len(sentence.lstrip())
            begins = " ".join(sentence.split()[:5])
            yield Fault(line + text[:first].count("\n"), f"{begins} ...", f"{words} words")
        start = end.end() if end else len(text)
