"""docs/genuine/inferred.md: what is believed of SQL Server without a document, from the marks.

A statement that is sent to SQL Server has a mark at its line, in a comment or a docstring:
``See:`` and the title of the page that documents it, or ``Inferred:`` and the question that would
settle it. The questions of docs/genuine/facts.sql and what the embedded server's page infers are on
the page, too.

``python -m tailrace.reference.beliefs docs/genuine/inferred.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.facts.script import questions

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "publisher/tailrace_publisher/source",
    "publisher/tailrace_publisher/snapshot",
    "tailrace/doctor",
    "tailrace/enable",
)
"""Where statements to SQL Server are."""
_EMULATOR: Final = "emulator/docs/emulator.md"
_SQL: Final = re.compile(
    r"\s*(SELECT|EXEC|EXECUTE|SET|DECLARE|ALTER|CREATE|DROP|INSERT|UPDATE|DELETE|MERGE|GRANT|DENY"
    r"|REVOKE|USE|WITH|IF|BEGIN|WAITFOR)\s"
)
_CALLS: Final = ("query", "query_sets", "query_together", "query_within", "execute", "rows", "row")
_MARK: Final = re.compile(r"\b(See|Inferred): (.*?)(?=\n\s*\n|\b(?:See|Inferred): |\Z)", re.DOTALL)
_HEAD: Final = """# What is inferred

Nobody of the project has a genuine SQL Server at hand.
Where no document of Microsoft says how it behaves, this page has what is believed instead.
[facts.sql](facts.sql) has the questions.
[README.md](README.md) says how to run it, and where to send the answers.

This page is generated: `python -m tailrace.reference.beliefs docs/genuine/inferred.md`.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark at a line.

    Attributes:
        text: the title of a page, or the question.
        first, last: the lines of its comment or docstring.
    """

    kind: str
    text: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Statement:
    """What holds a statement to SQL Server: a function, a method or a constant.

    Attributes:
        file: below the clone's root.
        marks: those of its lines, of the comment above it, and of its class's docstring.
    """

    file: str
    name: str
    line: int
    marks: tuple[Mark, ...]


def statements(path: Path) -> list[Statement]:
    """Everything in a file that holds a statement to SQL Server, in the file's order."""
    source = path.read_text(encoding="utf-8")
    marks = list(_marks(source))
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return [
        Statement(file, name, first, tuple(m for m in marks if _is_at(m, first, last, of_class)))
        for name, first, last, of_class in _holders(ast.parse(source))
    ]


def all_statements() -> Iterator[Statement]:
    """The statements of all folders that send any."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from statements(path)


def _is_at(mark: Mark, first: int, last: int, of_class: range) -> bool:
    is_near = first - 1 <= mark.last and mark.first <= last + 1
    return is_near or mark.first in of_class


def _holders(tree: ast.Module) -> Iterator[tuple[str, int, int, range]]:
    """Name, first and last line, and the lines of the class's docstring."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            head = node.body[0]
            of_class = range(node.lineno, (head.end_lineno or 0) + 1 if _is_text(head) else 0)
            for inner in node.body:
                yield from _holder(inner, f"{node.name}.", of_class)
        else:
            yield from _holder(node, "", range(0))


def _holder(node: ast.stmt, prefix: str, of_class: range) -> Iterator[tuple[str, int, int, range]]:
    match node:
        case ast.FunctionDef(name=name):
            decorators = [each.lineno for each in node.decorator_list]
            first = min([node.lineno, *decorators])
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            first = node.lineno
        case _:
            return
    if any(map(_is_sql, _texts(node))) or any(map(_sends, ast.walk(node))):
        yield prefix + name, first, node.end_lineno or first, of_class


def _texts(node: ast.stmt) -> Iterator[str]:
    """Beginnings of the texts of a node that are no docstrings."""
    docs = {id(each.value) for each in ast.walk(node) if isinstance(each, ast.Expr)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docs:
            yield each.value


def _is_sql(text: str) -> bool:
    return _SQL.match(text) is not None


def _sends(node: ast.AST) -> bool:
    """Whether a node is a call that sends a text."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CALLS
        and any(isinstance(argument, ast.JoinedStr) for argument in node.args)
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _marks(source: str) -> Iterator[Mark]:
    for first, last, text in (*_comments(source), *_docstrings(source)):
        for kind, said in _MARK.findall(text):
            yield Mark(kind, " ".join(said.split()).rstrip("."), first, last)


def _comments(source: str) -> Iterator[tuple[int, int, str]]:
    """Comments, those of consecutive lines as one."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield last - len(block) + 1, last, "\n".join(block)
            block = []
        block.append(token.string.removeprefix("#").strip())
        last = token.start[0]
    if block:
        yield last - len(block) + 1, last, "\n".join(block)


def _docstrings(source: str) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, node.end_lineno or node.lineno, text


def document() -> str:
    """The whole page."""
    asked = "".join(
        f"| {question.fact} | {_cell(question.text)} | {_cell('<br>'.join(question.outcomes))} |\n"
        for question in questions()
    )
    inferred = "".join(
        f"| {_cell(mark.text)} | [{statement.name}](../../{statement.file}) |\n"
        for statement in all_statements()
        for mark in statement.marks
        if mark.kind == "Inferred"
    )
    heads = "| question | asked by |\n|---|---|\n"
    marked = heads + inferred if inferred else "None has a mark yet.\n"
    emulator = "".join(f"| {part} | {_cell(text)} |\n" for part, text in emulator_inferences())
    return (
        f"{_HEAD}\n## Questions and what follows from their answers\n\n"
        f"| fact | question | outcomes |\n|---|---|---|\n{asked}"
        f"\n## Statements of the publisher and of doctor\n\n"
        f"{marked}"
        f"\n## The embedded server\n\n"
        f"Its [page](../emulator/emulator.md) has each in its place, and more in its tables.\n\n"
        f"| part | inferred |\n|---|---|\n{emulator}"
    )


def emulator_inferences() -> Iterator[tuple[str, str]]:
    """What the embedded server's page infers, by its part: items of lists, and sentences."""
    in_list = False
    part = ""
    headings: dict[int, str] = {}
    for paragraph in _paragraphs((ROOT / _EMULATOR).read_text(encoding="utf-8")):
        if heading := re.match(r"(#+) (.+)", paragraph):
            level = len(heading[1])
            headings[level] = heading[2]
            part = headings[level - 1] if heading[2] == "Inferred" else heading[2]
        if re.match(r"#+ Inferred$|Inferred\b[^.]*:$", paragraph):
            in_list = True
        elif in_list and (item := re.match(r"(?:\d+\.|-) +(.+)", paragraph)):
            yield part, item[1].removeprefix("Inferred: ")
        elif paragraph.startswith("#") or not paragraph.startswith("Each line is"):
            in_list = False
            for text in re.findall(r"\bInferred: (.+?)(?:\.(?= |$)|$)", paragraph):
                yield part, text


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each in one line."""
    for block in re.split(r"\n\s*\n|\n(?=\d+\. |- |#)", text):
        yield " ".join(block.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of what is inferred.")
    parser.add_argument("page", type=Path, help="docs/genuine/inferred.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
