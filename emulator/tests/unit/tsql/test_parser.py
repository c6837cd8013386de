"""Tokens, and batches without punctuation: where one statement ends and the next begins."""

from __future__ import annotations

import pytest

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.parser import parse_batch
from tailrace_emulator.tsql.syntax.tokens import Kind, tokenize


def kinds(sql: str) -> list[tuple[Kind, str]]:
    return [(token.kind, token.text) for token in tokenize(sql)][:-1]


def test_tokens():
    text = "SELECT [a]]b], \"c\", N'x''y' -- note\n/* a /* nested */ b */ 0x0F, 1.5e3 @x @@y"
    assert kinds(text) == [
        (Kind.WORD, "SELECT"), (Kind.QUOTED, "a]b"), (Kind.OPERATOR, ","), (Kind.QUOTED, "c"),
        (Kind.OPERATOR, ","), (Kind.NATIONAL, "x'y"), (Kind.BINARY, "0x0F"), (Kind.OPERATOR, ","),
        (Kind.NUMBER, "1.5e3"), (Kind.VARIABLE, "@x"), (Kind.VARIABLE, "@@y"),
    ]  # fmt: skip


def test_lines_count_through_strings_and_comments():
    tokens = tokenize("a\n'x\ny'\n/* \n */ b")
    assert [(t.text, t.line) for t in tokens][:-1] == [("a", 1), ("x\ny", 2), ("b", 5)]


def test_double_quotes_are_strings_when_the_option_is_off():
    (token, _) = tokenize('"x"', quoted_identifier=False)
    assert token.kind is Kind.STRING


BATCHES = [
    ("SELECT 1 SELECT 2", ["QueryStatement"] * 2),
    ("DECLARE @a int SET @a = 1 SELECT @a", ["Declare", "SetVariable", "QueryStatement"]),
    ("IF 1 = 1 SELECT 1 ELSE SELECT 2 SELECT 3", ["If", "QueryStatement"]),
    ("IF @@TRANCOUNT > 0 COMMIT TRAN", ["If"]),
    ("IF 1 = 1 BEGIN BEGIN TRAN IF 1 = 2 COMMIT TRAN END SAVE TRAN [x]", ["If", "Transaction"]),
    ("set implicit_transactions off IF @@TRANCOUNT > 0 COMMIT TRAN ", ["SetOption", "If"]),
    ("BEGIN TRY SELECT 1 END TRY BEGIN CATCH SELECT 2 END CATCH SELECT 3",
     ["TryCatch", "QueryStatement"]),
    ("EXEC a 1, @b = 2 EXEC c; EXEC('x')", ["Execute", "Execute", "ExecuteString"]),
    ("sp_who", ["Execute"]),
    ("INSERT t EXEC p INSERT t (a) SELECT 1 INSERT t VALUES (1)", ["Insert"] * 3),
    ("UPDATE t SET a = 1 FROM t JOIN u ON t.i = u.i WHERE u.x = 1 DELETE t", ["Update", "Delete"]),
    ("WITH c AS (SELECT 1 AS a) SELECT * FROM c; ;WITH d AS (SELECT 1 AS a) DELETE FROM t",
     ["QueryStatement", "Delete"]),
    ("WHILE 1 = 1 BEGIN BREAK END PRINT 'x'", ["While", "Print"]),
    ("RETURN SELECT 1", ["Return", "QueryStatement"]),
    ("CREATE TABLE t (a int) CREATE INDEX i ON t (a) DROP TABLE t",
     ["CreateTable", "CreateIndex", "DropObject"]),
    ("ALTER TABLE t ADD a int DEFAULT 1 WITH VALUES ALTER TABLE t DROP COLUMN b, c",
     ["AlterAdd", "AlterDrop"]),
    ("GRANT SELECT, EXECUTE ON SCHEMA::dbo TO a, b WITH GRANT OPTION SELECT 1",
     ["Permissions", "QueryStatement"]),
    ("SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY SELECT 1",
     ["QueryStatement"] * 2),
    ("COMMIT SELECT 1", ["Transaction", "QueryStatement"]),
    ("BEGIN GOTO x; END IF 1 = 1 GOTO x; ELSE SELECT 2; x: SELECT 1",
     ["Block", "If", "Label", "QueryStatement"]),
    ("BEGIN x:; END BEGIN RECONFIGURE; END", ["Block", "Block"]),
    ("BEGIN DISABLE TRIGGER r ON t; END EXEC p ENABLE TRIGGER r ON t; BEGIN TRAN DISABLE TRIGGER r"
     " ON t", ["Block", "Execute", "SwitchTrigger", "Transaction", "SwitchTrigger"]),
    ("EXEC p enable EXEC p disable, 1", ["Execute", "Execute"]),
    ("", []),
    (";;", []),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), BATCHES)
def test_statements(sql, expected):
    assert [type(s).__name__ for s in parse_batch(sql).statements] == expected


def test_a_procedure_takes_the_rest_of_its_batch():
    text = "CREATE PROC p AS SELECT 1 SELECT 2"
    (statement,) = parse_batch(text).statements
    assert isinstance(statement, CreateModule)
    assert statement.text == text
    assert statement.body is not None
    assert len(statement.body.statements) == 2


@pytest.mark.parametrize(
    ("sql", "number", "line"),
    [
        ("SELECT\n1 +", 102, 2),
        ("\nSELECT 1 FROM", 102, 2),
        ("BEGIN SELECT 1", 102, 1),
        ("SELECT 1 WHERE", 102, 1),
        ("CREATE TABLE t (a int", 102, 1),
        ("SELECT (1", 102, 1),
        ("WHERE 1 = 1", 156, 1),
        ("SELECT 1 END", 156, 1),
        ("CREATE VIEW v AS SELECT 1 AS a; SELECT 2", 156, 1),
    ],
)
def test_syntax_errors_tell_where(sql, number, line):
    with pytest.raises(SqlError) as caught:
        parse_batch(sql)
    assert (caught.value.number, caught.value.line, caught.value.severity) == (number, line, 15)


def test_equal_texts_share_a_tree_and_the_cache_is_bounded():
    text = "SELECT 1 AS shared"
    assert parse_batch(text) is parse_batch(text)
    assert parse_batch(text) is not parse_batch(text, quoted_identifier=False)
    long_text = "SELECT '" + "x" * 100_000 + "'"
    assert parse_batch(long_text) is not parse_batch(long_text)
