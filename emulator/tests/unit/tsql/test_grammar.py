"""The registry of statement grammars."""

import pytest

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.syntax.grammar import Grammar
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Ignored, Statement


def named(name: str):
    def read(cursor: TokenCursor) -> Statement:
        while cursor.token.upper and not cursor.at(";"):
            cursor.advance()
        return Ignored(name)

    return read


@pytest.fixture
def grammar() -> Grammar:
    made = Grammar()
    for words in ("MAKE", "MAKE A", "MAKE A WISH", "MAKE B"):
        made.register(*words.split())(named(words))
    return made


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("MAKE A WISH 1", "MAKE A WISH"),
        ("make a wish", "MAKE A WISH"),
        ("MAKE A FUSS", "MAKE A"),
        ("MAKE A", "MAKE A"),
        ("MAKE B", "MAKE B"),
        ("MAKE [A] WISH", "MAKE"),
        ("MAKE", "MAKE"),
    ],
)
def test_the_longest_registration_that_fits_is_taken(grammar, text, taken):
    assert grammar.statement(TokenCursor(text)).what == taken


def test_a_statement_takes_the_semicolons_around_it(grammar):
    cursor = TokenCursor(";; MAKE A;; MAKE B")

    assert grammar.statement(cursor).what == "MAKE A"
    assert cursor.at("MAKE", "B")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("MAKE nothing", True), ("LET BE", True), ("LET go", False), ("A WISH", False), ("", False)],
)
def test_what_is_registered_is_a_statement_and_no_name(grammar, text, expected):
    grammar.register("LET", "BE")(named("LET BE"))

    assert grammar.is_next(TokenCursor(text)) is expected


def test_a_name_with_a_colon_is_a_label(grammar):
    assert grammar.statement(TokenCursor("Wish: MAKE A")).name == "wish"


def test_what_nobody_registered_is_a_syntax_error(grammar):
    with pytest.raises(SqlError, match="102: Incorrect syntax near 'WISH'"):
        grammar.statement(TokenCursor("WISH A"))


def test_two_grammars_do_not_share_their_words(grammar):
    with pytest.raises(ValueError, match="MAKE A"):
        grammar.register("MAKE", "A")(named("again"))
