"""The catalogue of messages, and that nothing beside it makes up a message of its own."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tailrace_emulator import messages
from tailrace_emulator.messages import CATALOGUE, SystemMessage
from tailrace_emulator.messages.catalogue import SPECIFICATION
from tailrace_emulator.messages.errors import Aborts

EMULATOR = Path(messages.__file__).parents[1]
AREAS = EMULATOR / "messages"

SAID_BY_CLIENTS_ONLY = {20009}
"""What Microsoft's pages of RAISERROR and FORMATMESSAGE show; no statement here says it."""


@dataclass
class Code:
    """What the emulator's files say, but for the catalogue's own areas.

    Attributes:
        calls: place and call, by what is called.
        numbers: every integer that is written somewhere.
    """

    calls: dict[str, list[tuple[str, ast.Call]]] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)

    def of(self, *names: str) -> list[tuple[str, ast.Call]]:
        """Calls of functions of those names."""
        return [call for name in names for call in self.calls.get(name, [])]

    def said(self) -> Iterator[tuple[str, SystemMessage, list[ast.expr]]]:
        """Every place that gives values to a message that it names by number."""
        for place, node in self.of("messages.error", "messages.text", "error"):
            for number in _numbers(node):
                assert number in CATALOGUE, f"{place}: {number} is not in the catalogue"
                yield place, CATALOGUE[number], node.args[1:]


def _numbers(node: ast.Call) -> list[int]:
    """The numbers that a call's first argument may be, as far as they are written there."""
    first = node.args[0] if node.args else None
    choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    return [c.value for c in choices if isinstance(c, ast.Constant) and type(c.value) is int]


@pytest.fixture(scope="module")
def code() -> Code:
    found = Code()
    for path in sorted(EMULATOR.rglob("*.py")):
        if path.parent == AREAS and path.name != "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                found.numbers.add(node.value)
            if isinstance(node, ast.Call):
                place = f"{path.relative_to(EMULATOR)}:{node.lineno}"
                found.calls.setdefault(ast.unparse(node.func), []).append((place, node))
    return found


def test_every_number_is_there_once():
    written = [
        node.args[0].value
        for path in AREAS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "SystemMessage"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert sorted(written) == list(CATALOGUE)


def test_errors_are_made_of_the_catalogue_only(code):
    assert [place for place, node in code.of("SqlError") if _numbers(node)] == []


def test_informational_messages_have_the_catalogues_text(code):
    made = [
        place
        for place, node in code.of("Message", "Notice", "self._message")
        if any(number in CATALOGUE for number in _numbers(node))
        if any(isinstance(value, ast.JoinedStr) for value in node.args)
        or any(isinstance(v, ast.Constant) and len(str(v.value)) > 20 for v in node.args)
    ]
    assert made == []


def test_each_place_gives_as_many_values_as_the_text_takes(code):
    wrong = [
        (place, message.number)
        for place, message, values in code.said()
        if not any(isinstance(value, ast.Starred) for value in values)
        if len(values) != len(message.places)
    ]
    assert wrong == []


def test_places_of_numbers_are_not_given_texts(code):
    wrong = [
        (place, message.number, specification)
        for place, message, values in code.said()
        for specification, value in zip(message.places, values, strict=False)
        if isinstance(value, ast.Constant)
        if isinstance(value.value, int) != specification.endswith(("d", "i", "u"))
    ]
    assert wrong == []


def test_nothing_in_the_catalogue_is_never_said(code):
    never = {number for number in CATALOGUE if number not in code.numbers}
    assert never == SAID_BY_CLIENTS_ONLY


def test_texts_are_of_sys_messages_form():
    for message in CATALOGUE.values():
        assert "%" not in SPECIFICATION.sub("", message.text), message
        assert message.filled(("x",) * len(message.places)), message
        assert 10 <= message.severity <= 25, message
        assert message.aborts is not Aborts.REPORTED, message


def test_an_error_takes_what_the_catalogue_says_and_what_its_place_says():
    found = messages.error(208, "dbo.t", line=3)
    assert (found.number, found.message) == (208, "Invalid object name 'dbo.t'.")
    assert (found.severity, found.state, found.line, found.aborts) == (16, 1, 3, Aborts.SCOPE)
    other = messages.error(208, "dbo.t", state=58, aborts=Aborts.STATEMENT, procedure="p")
    assert (other.state, other.aborts, other.procedure) == (58, Aborts.STATEMENT, "p")


def test_percent_signs_and_missing_values():
    message = SystemMessage(50_001, "%d%% of '%.*ls' for %S_MSG.")
    assert message.places == ("%d", "%.*ls", "%S_MSG")
    assert message.filled((5, "a%s", "b")) == "5% of 'a%s' for b."
    with pytest.raises(TypeError):
        message.filled((5,))
