"""Variables, control flow, errors, transactions, EXEC."""

from __future__ import annotations

from emulator.tests.unit.tsql.conftest import NOW, Session
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.results import Parameter
from tailrace_emulator.values.types import INT, nvarchar


def test_variables_and_loops(sql):
    outcome = sql(
        "DECLARE @i int = 0, @s varchar(20) = ''; WHILE @i < 10 BEGIN SET @i += 1;"
        " IF @i % 2 = 0 CONTINUE; IF @i > 7 BREAK; SET @s = @s + CAST(@i AS varchar(5)) END"
        " SELECT @s, @i"
    )
    assert outcome.rows == [("1357", 9)]


def test_a_variable_cuts_text_silently_and_converts(sql):
    outcome = sql("DECLARE @s varchar(2) = 'abc', @n int = '12', @d date = '2020-01-02';"
                  " SELECT @s, @n, @d")  # fmt: skip
    assert outcome.rows == [("ab", 12, 737425)]


def test_select_into_variables(sql):
    sql("CREATE TABLE t (a int, b varchar(5)); INSERT t VALUES (1, 'x'), (2, 'y')")
    outcome = sql("DECLARE @a int, @b varchar(5); SELECT @a = a, @b = b FROM t ORDER BY a;"
                  " SELECT @a, @b, @@ROWCOUNT")  # fmt: skip
    assert outcome.rows == [(2, "y", 2)]
    outcome = sql("DECLARE @a int = 7; SELECT @a = a FROM t WHERE 1 = 0; SELECT @a")
    assert outcome.rows == [(7,)]
    assert sql("DECLARE @a int; SELECT @a = a, b FROM t").errors == [141]
    outcome = sql("DECLARE @s varchar(10) = '', @n int = 0;"
                  " SELECT @s = @s + b, @n += a FROM t ORDER BY a DESC; SELECT @s, @n")  # fmt: skip
    assert outcome.rows == [("yx", 3)]


def test_undeclared(sql):
    assert sql("SELECT @x").errors == [137]
    assert sql("SET @x = 1").errors == [137]
    assert sql("SELECT * FROM @t").errors == [1087]


def test_errors_end_their_statement_only(sql):
    outcome = sql("SELECT 1/0; SELECT 2")
    assert outcome.errors == [8134]
    assert outcome.rows == [(2,)]


def test_errors_that_end_the_batch(sql):
    for statement in ("SELECT CAST('x' AS int)", "SELECT * FROM nosuch", "THROW 50001, 'x', 1"):
        outcome = sql(f"{statement}; SELECT 2")
        assert outcome.rows != [(2,)] if outcome.sets else True
        assert len(outcome.errors) == 1


def test_a_conversion_error_rolls_the_transaction_back(sql):
    assert sql("BEGIN TRAN; SELECT CAST('x' AS int)").errors == [245]
    assert sql.value("@@TRANCOUNT") == 0


def test_xact_abort(sql):
    sql("CREATE TABLE t (a int PRIMARY KEY); SET XACT_ABORT ON")
    outcome = sql("BEGIN TRAN; INSERT t VALUES (1); INSERT t VALUES (1); INSERT t VALUES (2)")
    assert outcome.errors == [2627]
    assert sql("SELECT COUNT(*), @@TRANCOUNT FROM t").rows == [(0, 0)]


def test_try_catch(sql):
    outcome = sql(
        "BEGIN TRY\n SELECT 1/0\n SELECT 'not reached' END TRY\nBEGIN CATCH"
        " SELECT ERROR_NUMBER(), ERROR_MESSAGE(), ERROR_SEVERITY(), ERROR_STATE(), ERROR_LINE(),"
        " ERROR_PROCEDURE() END CATCH; SELECT ERROR_NUMBER()"
    )
    assert outcome.errors == []
    assert outcome.sets[-2] == [(8134, "Divide by zero error encountered.", 16, 1, 2, None)]
    assert outcome.rows == [(None,)]


def test_nested_try_and_rethrow(sql):
    outcome = sql(
        "BEGIN TRY BEGIN TRY THROW 50005, 'inner', 3 END TRY"
        " BEGIN CATCH THROW END CATCH END TRY"
        " BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_MESSAGE(), ERROR_STATE() END CATCH"
    )
    assert outcome.rows == [(50005, "inner", 3)]


def test_a_missing_table_is_not_caught_in_its_own_batch(sql):
    assert sql("BEGIN TRY SELECT * FROM nosuch END TRY BEGIN CATCH SELECT 1 END CATCH").errors == [
        208
    ]
    outcome = sql("BEGIN TRY EXEC('SELECT * FROM nosuch') END TRY"
                  " BEGIN CATCH SELECT ERROR_NUMBER() END CATCH")  # fmt: skip
    assert outcome.rows == [(208,)]


def test_a_doomed_transaction(sql):
    sql("CREATE TABLE t (a int)")
    outcome = sql(
        "BEGIN TRAN; INSERT t VALUES (1); BEGIN TRY SELECT CAST('x' AS int) END TRY"
        " BEGIN CATCH SELECT XACT_STATE(); INSERT t VALUES (2) END CATCH"
    )
    assert outcome.rows == [(-1,)]
    assert outcome.errors == [3930, 3998]
    assert sql("SELECT @@TRANCOUNT").rows == [(0,)]
    outcome = sql("BEGIN TRAN; BEGIN TRY SELECT CAST('x' AS int) END TRY BEGIN CATCH END CATCH")
    assert outcome.errors == [3998]
    assert sql("SELECT COUNT(*), @@TRANCOUNT FROM t").rows == [(0, 0)]


def test_raiserror(sql):
    outcome = sql("RAISERROR('%s has %d, %5d, %-3d|%x', 16, 2, 'it', 5, 6, 7, 255); SELECT @@ERROR")
    assert outcome.texts == ["it has 5,     6, 7  |ff"]
    assert outcome.rows == [(50000,)]
    assert sql("RAISERROR('note', 5, 1) WITH NOWAIT").messages == ["note"]
    assert sql("THROW 40000, 'x', 1").errors == [35100]


def test_print_and_if(sql):
    assert sql("IF 1 = 1 PRINT 'a' ELSE PRINT 'b'; PRINT 1.5; PRINT NULL").messages == [
        "a", "1.5", "",
    ]  # fmt: skip
    assert sql("IF EXISTS (SELECT 1 WHERE 1 = 0) PRINT 'x'; ELSE PRINT 'y'").messages == ["y"]


def test_transactions_nest_by_count_only(sql):
    sql("CREATE TABLE t (a int)")
    outcome = sql(
        "BEGIN TRAN; BEGIN TRAN; INSERT t VALUES (1); COMMIT; SELECT @@TRANCOUNT; ROLLBACK;"
        " SELECT COUNT(*) FROM t"
    )
    assert outcome.sets == [[(1,)], [(0,)]]
    assert sql("COMMIT").errors == [3902]
    assert sql("ROLLBACK").errors == [3903]


def test_savepoints(sql):
    sql("CREATE TABLE t (a int)")
    outcome = sql(
        "BEGIN TRAN outermost; INSERT t VALUES (1); SAVE TRAN s; INSERT t VALUES (2);"
        " ROLLBACK TRAN s; COMMIT; SELECT a FROM t"
    )
    assert outcome.rows == [(1,)]
    assert sql("BEGIN TRAN; ROLLBACK TRAN nosuch").errors == [6401]
    sql("ROLLBACK")
    assert sql("BEGIN TRAN named; ROLLBACK TRAN named; SELECT @@TRANCOUNT").rows == [(0,)]


def test_implicit_transactions(sql):
    sql("CREATE TABLE t (a int); SET IMPLICIT_TRANSACTIONS ON")
    assert sql("SELECT @@TRANCOUNT").rows == [(0,)]
    assert sql("INSERT t VALUES (1); SELECT @@TRANCOUNT").rows == [(1,)]
    sql("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF")
    assert sql("SELECT COUNT(*) FROM t").rows == [(0,)]


def test_procedures(sql):
    outcome = sql(
        "CREATE PROCEDURE dbo.twice @n int, @m nvarchar(10) = N'def', @out int OUTPUT AS\n"
        "BEGIN SET NOCOUNT ON; SET @out = @n * 2; SELECT @n AS n, @m AS m; RETURN 7 END"
    )
    assert not outcome.errors, outcome.texts
    outcome = sql("DECLARE @o int, @rc int; EXEC @rc = twice 5, @out = @o OUTPUT; SELECT @o, @rc")
    assert outcome.sets == [[(5, "def")], [(10, 7)]]
    outcome = sql.call("dbo.twice", [
        Parameter("@n", INT, 4), Parameter("@out", INT, None, output=True),
    ])  # fmt: skip
    assert (outcome.rows, outcome.status, outcome.outputs) == ([(4, "def")], 7, {"@out": 8})
    assert sql("EXEC twice").errors == [201]
    assert sql("EXEC twice 1, 2, 3, 4").errors == [8144]
    assert sql("EXEC twice @nosuch = 1").errors == [8145]
    assert sql("EXEC nosuch").errors == [2812]
    assert sql("CREATE PROC twice AS SELECT 1").errors == [2714]
    sql("CREATE OR ALTER PROC twice AS SELECT 'new'")
    assert sql("twice").rows == [("new",)]
    sql("DROP PROCEDURE twice")
    assert sql("EXEC twice").errors == [2812]


def test_an_error_in_a_procedure_names_it(sql):
    sql("CREATE PROC broken AS\n\nSELECT 1/0")
    outcome = sql("BEGIN TRY EXEC broken END TRY"
                  " BEGIN CATCH SELECT ERROR_PROCEDURE(), ERROR_LINE() END CATCH")  # fmt: skip
    assert outcome.rows == [("broken", 3)]


def test_recursion_is_limited(sql):
    sql("CREATE PROC again AS EXEC again")
    assert sql("EXEC again").errors == [217]


def test_local_tables_of_a_procedure_end_with_it(sql):
    sql("CREATE PROC p AS CREATE TABLE #mine (a int); INSERT #mine VALUES (1); SELECT * FROM #mine")
    assert sql("EXEC p; EXEC p").sets == [[(1,)], [(1,)]]
    assert sql("SELECT * FROM #mine").errors == [208]


def test_dynamic_text(sql):
    assert sql("DECLARE @n varchar(9) = 'SELECT '; EXEC(@n + '5')").rows == [(5,)]
    outcome = sql("EXEC sp_executesql N'SELECT @a + @b', N'@a int, @b int', 2, @b = 3")
    assert outcome.rows == [(5,)]
    assert sql("DECLARE @x int = 1; EXEC('SELECT @x')").errors == [137]
    outcome = sql("EXEC('USE master'); SELECT DB_NAME()")
    assert outcome.rows == [("shop",)]


def test_insert_exec(sql):
    outcome = sql(
        "DECLARE @t TABLE (a int, b varchar(5)); INSERT @t EXEC('SELECT 1, ''x'' UNION ALL"
        " SELECT 2, ''y''; SELECT 3, ''z'''); SELECT * FROM @t"
    )
    assert outcome.rows == [(1, "x"), (2, "y"), (3, "z")]
    assert outcome.counts[0] == 3
    outcome = sql("DECLARE @t TABLE (a int); INSERT @t EXEC('SELECT 1, 2')")
    assert outcome.errors == [213]


def test_cursors(sql):
    sql("CREATE TABLE t (a int, b varchar(5)); INSERT t VALUES (1, 'x'), (2, 'y')")
    outcome = sql(
        "DECLARE @a int, @s varchar(20) = ''; DECLARE c CURSOR LOCAL FAST_FORWARD FOR"
        " SELECT a FROM t ORDER BY a; OPEN c; FETCH NEXT FROM c INTO @a;"
        " WHILE @@FETCH_STATUS = 0 BEGIN SET @s += CAST(@a AS varchar(5));"
        " FETCH NEXT FROM c INTO @a END CLOSE c; DEALLOCATE c; SELECT @s"
    )
    assert not outcome.errors, outcome.texts
    assert outcome.rows == [("12",)]


def test_output_parameters_of_parameterised_text(sql):
    given = [Parameter("@a", INT, 5), Parameter("@b", nvarchar(10), None, output=True)]
    outcome = sql.collect(sql.runner.run("SET @b = CONCAT('n', @a)", given))
    assert outcome.outputs == {"@b": "n5"}


def test_nocount_rowcount_and_error(sql):
    sql("CREATE TABLE t (a int)")
    outcome = sql("SET NOCOUNT ON; INSERT t VALUES (1), (2); SELECT @@ROWCOUNT, @@ERROR")
    assert outcome.counts[0] is None
    assert outcome.rows == [(2, 0)]


def test_waitfor_ends_when_cancelled(sql):
    sql.context.cancelled.set()
    assert sql("WAITFOR DELAY '00:10:00'").errors == [3617]
    sql.context.cancelled.clear()
    assert sql("WAITFOR DELAY '00:00:00'; SELECT 1").rows == [(1,)]


def test_reset_forgets_everything_but_the_login(sql, engine):
    sql("CREATE TABLE #t (a int); SET NOCOUNT ON; BEGIN TRAN; USE master")
    sql.runner.reset()
    assert sql.value("@@TRANCOUNT") == 0
    assert sql.value("DB_NAME()") == "shop"
    assert sql("SELECT * FROM #t").errors == [208]


REFUSED = (
    "SET NUMERIC_ROUNDABORT ON", "BEGIN GOTO x END; BEGIN x: PRINT 1 END",
    "CREATE TRIGGER t ON DATABASE FOR CREATE_TABLE AS RETURN",
    "BULK INSERT t FROM 'x'", "DBCC CHECKDB",
    "CREATE AGGREGATE a (@x int) RETURNS int EXTERNAL NAME x",
    "SELECT geography::Point(47, -122, 4326)",
)  # fmt: skip


def test_what_is_not_supported_is_refused_by_name(sql):
    for statement in REFUSED:
        outcome = sql(statement)
        assert outcome.errors == [50900], statement
        assert "does not support" in outcome.texts[0]


def test_positional_outputs_go_to_their_own_variables(sql):
    sql("CREATE PROCEDURE two @a int OUTPUT, @b int OUTPUT AS SELECT @a = 1, @b = 2")
    outcome = sql("DECLARE @x int, @y int; EXEC two @x OUTPUT, @y OUTPUT; SELECT @x, @y")
    assert outcome.rows == [(1, 2)]
    outcome = sql("DECLARE @x int, @y int; EXEC two @b = @x OUTPUT, @a = @y OUTPUT; SELECT @x, @y")
    assert outcome.rows == [(2, 1)]


def test_values_of_a_sequence_do_not_come_twice_after_a_restart(tmp_path):
    given = []
    for _ in range(2):
        engine = Engine(tmp_path, ManualClock(NOW))
        if not given:
            engine.create_database("shop")
        session = Session(engine, 51)
        if not given:
            session("CREATE SEQUENCE s START WITH 1 CACHE 10; CREATE SEQUENCE n NO CACHE")
        given += [session.value("NEXT VALUE FOR s"), session.value("NEXT VALUE FOR s")]
        given.append(session.value("NEXT VALUE FOR n"))
        session.context.store.close()
        engine.close()
    assert given == [1, 2, -(2**63), 11, 12, -(2**63) + 1]


def test_print_tells_eight_thousand_bytes(sql):
    def printed(text):
        return len(sql(f"DECLARE @s {text}; PRINT @s").messages[0])

    assert printed("varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 9000)") == 8000
    assert printed("nvarchar(max) = REPLICATE(CAST(N'x' AS nvarchar(max)), 9000)") == 4000
