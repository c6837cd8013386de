"""SQL Server's own errors, as the statements of this package raise them.

Numbers, severities and texts are those of ``sys.messages``; the numbers decide the class of the
client's exception. ``aborts`` says what each ends, after Erland Sommarskog's measurements ("Error
and Transaction Handling in SQL Server", part two).
"""

from __future__ import annotations

from emulator.errors import SqlError
from emulator.tsql.syntax.nodes import Name


def dotted(name: Name) -> str:
    """A name as error texts spell it."""
    return ".".join(name)


def syntax(near: str, line: int) -> SqlError:
    """102."""
    return SqlError(102, f"Incorrect syntax near '{near}'.", severity=15, line=line, aborts="scope")


def keyword_syntax(near: str, line: int) -> SqlError:
    """156."""
    return SqlError(
        156,
        f"Incorrect syntax near the keyword '{near}'.",
        severity=15,
        line=line,
        aborts="scope",
    )


def compile_error(number: int, text: str, *, severity: int = 16, line: int = 1) -> SqlError:
    """An error found before its statement runs: it ends what was compiled, not its caller."""
    return SqlError(number, text, severity=severity, line=line, aborts="scope")


def invalid_object(name: Name, line: int) -> SqlError:
    """208."""
    return compile_error(208, f"Invalid object name '{dotted(name)}'.", line=line)


def invalid_column(name: str, line: int) -> SqlError:
    """207."""
    return compile_error(207, f"Invalid column name '{name}'.", line=line)


def ambiguous_column(name: str, line: int) -> SqlError:
    """209."""
    return compile_error(209, f"Ambiguous column name '{name}'.", line=line)


def unbound(name: Name, line: int) -> SqlError:
    """4104."""
    return compile_error(
        4104, f'The multi-part identifier "{dotted(name)}" could not be bound.', line=line
    )


def undeclared_variable(name: str, line: int = 1) -> SqlError:
    """137."""
    return compile_error(137, f'Must declare the scalar variable "{name}".', severity=15, line=line)


def undeclared_table_variable(name: str, line: int = 1) -> SqlError:
    """1087."""
    return compile_error(1087, f'Must declare the table variable "{name}".', severity=15, line=line)


def not_a_function(name: Name, line: int) -> SqlError:
    """195 or 4121."""
    if len(name) == 1:
        return compile_error(
            195, f"'{name[0]}' is not a recognized built-in function name.", severity=15, line=line
        )
    return compile_error(
        4121,
        f'Cannot find either column "{name[0]}" or the user-defined function or aggregate'
        f' "{dotted(name)}", or the name is ambiguous.',
        line=line,
    )


def argument_count(name: str, count: int) -> SqlError:
    """174."""
    return compile_error(
        174, f"The {name.lower()} function requires {count} argument(s).", severity=15
    )


def operand_clash(left: str, right: str) -> SqlError:
    """206."""
    return compile_error(206, f"Operand type clash: {left} is incompatible with {right}")


def invalid_operator_type(type_name: str, operation: str) -> SqlError:
    """8117."""
    return compile_error(
        8117, f"Operand data type {type_name} is invalid for {operation} operator."
    )


def incompatible_types(left: str, right: str, operation: str) -> SqlError:
    """402."""
    return compile_error(
        402,
        f"The data types {left} and {right} are incompatible in the {operation} operator.",
    )


def implicit_conversion(source: str, target: str) -> SqlError:
    """257."""
    return compile_error(
        257,
        f"Implicit conversion from data type {source} to {target} is not allowed."
        " Use the CONVERT function to run this query.",
    )


def explicit_conversion(source: str, target: str) -> SqlError:
    """529."""
    return compile_error(
        529, f"Explicit conversion from data type {source} to {target} is not allowed."
    )


def not_boolean(near: str, line: int) -> SqlError:
    """4145."""
    return compile_error(
        4145,
        "An expression of non-boolean type specified in a context where a condition is expected,"
        f" near '{near}'.",
        severity=15,
        line=line,
    )


def conversion_failed(source: str, value: str, target: str) -> SqlError:
    """245."""
    return SqlError(
        245,
        f"Conversion failed when converting the {source} value '{value}' to data type {target}.",
        aborts="transaction",
    )


def error_converting(source: str, target: str) -> SqlError:
    """8114."""
    return SqlError(
        8114,
        f"Error converting data type {source} to {target}.",
        state=5,
        aborts="transaction",
    )


def date_conversion_failed(target: str = "") -> SqlError:
    """241; 295 of a text that is to become a smalldatetime."""
    if target == "smalldatetime":
        text = "Conversion failed when converting character string to smalldatetime data type."
        return SqlError(295, text, state=3, aborts="transaction")
    return SqlError(
        241,
        "Conversion failed when converting date and/or time from character string.",
        aborts="transaction",
    )


def date_out_of_range(source: str, target: str) -> SqlError:
    """242."""
    return SqlError(
        242,
        f"The conversion of a {source} data type to a {target} data type resulted in an"
        " out-of-range value.",
        state=3,
    )


def uniqueidentifier_conversion_failed() -> SqlError:
    """8169."""
    return SqlError(
        8169,
        "Conversion failed when converting from a character string to uniqueidentifier.",
        state=2,
        aborts="transaction",
    )


def arithmetic_overflow(target: str) -> SqlError:
    """8115 of an expression."""
    return SqlError(
        8115, f"Arithmetic overflow error converting expression to data type {target}.", state=2
    )


def numeric_overflow(source: str, target: str) -> SqlError:
    """8115 of a conversion."""
    return SqlError(
        8115, f"Arithmetic overflow error converting {source} to data type {target}.", state=8
    )


def value_overflow(target: str, value: int) -> SqlError:
    """220."""
    return SqlError(
        220,
        f"Arithmetic overflow error for data type {target}, value = {value}.",
        state=1,
    )


def text_overflow(source: str, value: str, target: str) -> SqlError:
    """248 for int; 244 for the smaller integers."""
    if target == "int":
        return SqlError(
            248,
            f"The conversion of the {source} value '{value}' overflowed an int column.",
            aborts="transaction",
        )
    return SqlError(
        244,
        f"The conversion of the {source} value '{value}' overflowed an"
        f" {'INT1' if target == 'tinyint' else 'INT2'} column. Use a larger integer column.",
        aborts="transaction",
    )


def divide_by_zero() -> SqlError:
    """8134."""
    return SqlError(8134, "Divide by zero error encountered.")


def truncated(table: str, column: str, value: str) -> SqlError:
    """2628."""
    return SqlError(
        2628,
        f"String or binary data would be truncated in table '{table}', column '{column}'."
        f" Truncated value: '{value}'.",
    )


def check_violated(
    statement: str, constraint: str, database: str, table: str, column: str | None
) -> SqlError:
    """547 of a CHECK constraint."""
    suffix = f", column '{column}'" if column else ""
    return SqlError(
        547,
        f'The {statement} statement conflicted with the CHECK constraint "{constraint}". The'
        f' conflict occurred in database "{database}", table "{table}"{suffix}.',
        state=0,
    )


def nested_too_deeply() -> SqlError:
    """191: found while the text is read."""
    return SqlError(
        191,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up"
        " into smaller queries.",
        severity=15,
        aborts="batch",
    )


def stack_limit() -> SqlError:
    """8631: found while the statement is compiled."""
    return SqlError(
        8631,
        "Internal error: Server stack limit has been reached. Please look for potentially deep"
        " nesting in your query, and try to simplify it.",
        severity=17,
        aborts="batch",
    )


def expression_limit() -> SqlError:
    """8632."""
    return SqlError(
        8632,
        "Internal error: An expression services limit has been reached. Please look for"
        " potentially complex expressions in your query, and try to simplify them.",
        severity=17,
        aborts="batch",
    )


def too_many_columns() -> SqlError:
    """1056."""
    return SqlError(
        1056,
        "The number of elements in the select list exceeds the maximum allowed number of 4096"
        " elements.",
        severity=15,
        aborts="batch",
    )


def value_too_large() -> SqlError:
    """7119."""
    return SqlError(
        7119,
        "Attempting to grow LOB beyond maximum allowed size of 2147483647 bytes.",
        aborts="batch",
    )


def cancelled() -> SqlError:
    """3617: an attention ended the statement."""
    return SqlError(3617, "The query was cancelled by the client.", severity=11, aborts="batch")


def subquery_many_rows() -> SqlError:
    """512."""
    return SqlError(
        512,
        "Subquery returned more than 1 value. This is not permitted when the subquery follows"
        " =, !=, <, <= , >, >= or when the subquery is used as an expression.",
    )


def ties_without_order() -> SqlError:
    """1062."""
    return compile_error(
        1062,
        "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
        severity=15,
    )


def recursion_without_union_all(name: str) -> SqlError:
    """252."""
    return compile_error(
        252,
        f"Recursive common table expression '{name}' does not contain a top-level UNION ALL"
        " operator.",
    )


def missing_procedure(name: str) -> SqlError:
    """2812."""
    return SqlError(2812, f"Could not find stored procedure '{name}'.", state=62)


def already_exists(name: str, line: int = 1) -> SqlError:
    """2714."""
    return SqlError(
        2714,
        f"There is already an object named '{name}' in the database.",
        state=6,
        line=line,
        aborts="batch",
    )


def cannot_drop(kind: str, name: str) -> SqlError:
    """3701."""
    return SqlError(
        3701,
        f"Cannot drop the {kind} '{name}', because it does not exist or you do not have"
        " permission.",
        severity=11,
        state=5,
    )


def cannot_alter_database(name: str) -> SqlError:
    """5011, which does not tell whether the database exists."""
    return SqlError(
        5011,
        f"User does not have permission to alter database '{name}', the database does not"
        " exist, or the database is not in a state that allows access checks.",
        severity=14,
        state=5,
    )
