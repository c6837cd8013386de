"""Messages 100 to 299: text, names, expressions, queries and conversions."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(102, "Incorrect syntax near '%.*ls'.", severity=15, aborts=Aborts.SCOPE),
    SystemMessage(
        105,
        "Unclosed quotation mark after the character string '%.*ls'.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        107,
        "The column prefix '%.*ls' does not match with a table name or alias name used in the"
        " query.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        108,
        "The ORDER BY position number %ld is out of range of the number of items in the"
        " select list.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        109,
        "There are more columns in the INSERT statement than values specified in the VALUES"
        " clause. The number of values in the VALUES clause must match the number of columns"
        " specified in the INSERT statement.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        110,
        "There are fewer columns in the INSERT statement than values specified in the VALUES"
        " clause. The number of values in the VALUES clause must match the number of columns"
        " specified in the INSERT statement.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(113, "Missing end comment mark '*/'.", severity=15, aborts=Aborts.BATCH),
    SystemMessage(
        116,
        "Only one expression can be specified in the select list when the subquery is not"
        " introduced with EXISTS.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        117,
        "The %S_MSG name '%.*ls' contains more than the maximum number of prefixes. The"
        " maximum is %d.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        119,
        "Must pass parameter number %d and subsequent parameters as '@name = value'. After"
        " the form '@name = value' has been used, all subsequent parameters must be passed in"
        " the form '@name = value'.",
        severity=15,
    ),
    SystemMessage(
        120,
        "The select list for the INSERT statement contains fewer items than the insert list."
        " The number of SELECT values must match the number of INSERT columns.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        121,
        "The select list for the INSERT statement contains more items than the insert list."
        " The number of SELECT values must match the number of INSERT columns.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        130,
        "Cannot perform an aggregate function on an expression containing an aggregate or a"
        " subquery.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        131,
        "The size (%d) given to the %S_MSG '%.*ls' exceeds the maximum allowed for any data"
        " type (%d).",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        132,
        "The label '%.*ls' has already been declared. Label names must be unique within a"
        " query batch or stored procedure.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        133,
        "A GOTO statement references the label '%.*ls' but the label has not been declared.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        134,
        "The variable name '%.*ls' has already been declared. Variable names must be unique"
        " within a query batch or stored procedure.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        135,
        "Cannot use a BREAK statement outside the scope of a WHILE statement.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        136,
        "Cannot use a CONTINUE statement outside the scope of a WHILE statement.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        137, 'Must declare the scalar variable "%.*ls".', severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        141,
        "A SELECT statement that assigns a value to a variable must not be combined with"
        " data-retrieval operations.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        145,
        "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        147,
        "An aggregate may not appear in the WHERE clause unless it is in a subquery contained"
        " in a HAVING clause or a select list, and the column being aggregated is an outer"
        " reference.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        148,
        "Incorrect time syntax in time string '%.*ls' used with WAITFOR.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(155, "'%.*ls' is not a recognized %ls option.", severity=15, aborts=Aborts.SCOPE),
    SystemMessage(
        156, "Incorrect syntax near the keyword '%.*ls'.", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        164,
        "Each GROUP BY expression must contain at least one column that is not an outer reference.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        167, "Cannot create %S_MSG on a temporary object.", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        168,
        "The floating point value '%.*ls' is out of the range of computer representation (%d"
        " bytes).",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        174, "The %.*ls function requires %d argument(s).", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        179,
        "Cannot use the OUTPUT option when passing a constant to a stored procedure.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        191,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it"
        " up into smaller queries.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        192,
        "The scale must be less than or equal to the precision.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(195, "'%.*ls' is not a recognized %S_MSG.", severity=15, aborts=Aborts.SCOPE),
    SystemMessage(
        196,
        "SELECT INTO must be the first query in a statement containing a UNION, INTERSECT or"
        " EXCEPT operator.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        201,
        "Procedure or function '%.*ls' expects parameter '%.*ls', which was not supplied.",
        state=4,
    ),
    SystemMessage(
        205,
        "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal"
        " number of expressions in their target lists.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(206, "Operand type clash: %ls is incompatible with %ls", aborts=Aborts.SCOPE),
    SystemMessage(207, "Invalid column name '%.*ls'.", aborts=Aborts.SCOPE),
    SystemMessage(208, "Invalid object name '%.*ls'.", aborts=Aborts.SCOPE),
    SystemMessage(209, "Ambiguous column name '%.*ls'.", aborts=Aborts.SCOPE),
    SystemMessage(
        213,
        "Column name or number of supplied values does not match table definition.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(214, "Procedure expects parameter '%ls' of type '%ls'."),
    SystemMessage(
        217,
        "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit %d).",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        218,
        "Could not find the type '%.*ls'. Either it does not exist or you do not have the"
        " necessary permission.",
    ),
    SystemMessage(
        219, "The type '%.*ls' already exists, or you do not have permission to create it."
    ),
    SystemMessage(220, "Arithmetic overflow error for data type %ls, value = %ld."),
    SystemMessage(226, "%ls statement not allowed within multi-statement transaction.", state=6),
    SystemMessage(
        229,
        "The %ls permission was denied on the object '%.*ls', database '%.*ls', schema '%.*ls'.",
        severity=14,
        state=5,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        230,
        "The %ls permission was denied on the column '%.*ls' of the object '%.*ls', database"
        " '%.*ls', schema '%.*ls'.",
        severity=14,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(232, "Arithmetic overflow error for type %ls, value = %f.", state=3),
    SystemMessage(
        235,
        "Cannot convert a char value to money. The char value has incorrect syntax.",
        state=0,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        240,
        'Types don\'t match between the anchor and the recursive part in column "%.*ls" of'
        ' recursive query "%.*ls".',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        241,
        "Conversion failed when converting date and/or time from character string.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        242,
        "The conversion of a %ls data type to a %ls data type resulted in an out-of-range value.",
        state=3,
    ),
    SystemMessage(243, "Type %.*ls is not a defined system type.", aborts=Aborts.SCOPE),
    SystemMessage(
        244,
        "The conversion of the %ls value '%.*ls' overflowed an %hs column. Use a larger"
        " integer column.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        245,
        "Conversion failed when converting the %ls value '%.*ls' to data type %ls.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        248,
        "The conversion of the %ls value '%.*ls' overflowed an int column.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        249,
        'The type "%ls" is not comparable. It cannot be used in the %ls clause.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        252,
        "Recursive common table expression '%.*ls' does not contain a top-level UNION ALL"
        " operator.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        257,
        "Implicit conversion from data type %ls to %ls is not allowed. Use the CONVERT"
        " function to run this query.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(258, "Cannot call methods on %ls.", severity=15),
    SystemMessage(259, "Ad hoc updates to system catalogs are not allowed.", aborts=Aborts.SCOPE),
    SystemMessage(
        262, "%ls permission denied in database '%.*ls'.", severity=14, aborts=Aborts.BATCH
    ),
    SystemMessage(263, "Must specify table to select from.", aborts=Aborts.SCOPE),
    SystemMessage(
        264,
        "The column name '%.*ls' is specified more than once in the SET clause or column list"
        " of an INSERT. A column cannot be assigned more than one value in the same clause."
        " Modify the clause to make sure that a column is updated only once. If this"
        " statement updates or inserts columns into a view, column aliasing can conceal the"
        " duplication in your code.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        265,
        'The column name "%.*ls" specified in the %ls operator conflicts with the existing'
        " column name in the %ls argument.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        266,
        "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT"
        " statements. Previous count = %ld, current count = %ld.",
        state=2,
    ),
    SystemMessage(
        271,
        'The column "%.*ls" cannot be modified because it is either a computed column or is'
        " the result of a UNION operator.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(272, "Cannot update a timestamp column.", aborts=Aborts.SCOPE),
    SystemMessage(
        273,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column"
        " list to exclude the timestamp column, or insert a DEFAULT into the timestamp"
        " column.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        280, "Only base table columns are allowed in the TEXTPTR function.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        281, "%d is not a valid style number when converting from %ls to a character string."
    ),
    SystemMessage(
        286, "The logical tables INSERTED and DELETED cannot be updated.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        289,
        "Cannot construct data type %ls, some of the arguments have values which are not valid.",
    ),
    SystemMessage(
        295,
        "Conversion failed when converting character string to smalldatetime data type.",
        state=3,
        aborts=Aborts.TRANSACTION,
    ),
)
