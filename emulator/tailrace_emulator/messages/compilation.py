"""Messages 8000 to 10999: identity, conversions, procedures' arguments and the compiler."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        8016,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
        ' incorrect. Parameter %d ("%.*ls"): Data type 0x%02X has an invalid data length or'
        " metadata length.",
    ),
    SystemMessage(
        8023,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
        ' incorrect. Parameter %d ("%.*ls"): The supplied value is not a valid instance of data'
        " type %.*ls. Check the source data for invalid values. An example of an invalid value is"
        " data of numeric type with scale greater than precision.",
    ),
    SystemMessage(
        8037,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
        ' incorrect. Table-valued parameter %d ("%.*ls"), row %I64d, column %d: Data type 0x%02X'
        " has an invalid data length or metadata length.",
    ),
    SystemMessage(
        8043,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
        ' incorrect. Table-valued parameter %d ("%.*ls"), row %I64d, column %d: The supplied value'
        " is not a valid instance of data type %.*ls. Check the source data for invalid values. An"
        " example of an invalid value is data of numeric type with scale greater than precision.",
    ),
    SystemMessage(
        8101,
        "An explicit value for the identity column in table '%.*ls' can only be specified"
        " when a column list is used and IDENTITY_INSERT is ON.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(8102, "Cannot update identity column '%.*ls'.", aborts=Aborts.SCOPE),
    SystemMessage(
        8106, "Table '%.*ls' does not have the identity property. Cannot perform SET operation."
    ),
    SystemMessage(
        8107,
        "IDENTITY_INSERT is already ON for another table. Cannot perform SET operation for"
        " table '%.*ls'.",
    ),
    SystemMessage(
        8110, "Cannot add multiple PRIMARY KEY constraints to table '%.*ls'.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        8111, "Cannot define PRIMARY KEY constraint on nullable column in table '%.*ls'."
    ),
    SystemMessage(
        8114, "Error converting data type %ls to %ls.", state=5, aborts=Aborts.TRANSACTION
    ),
    SystemMessage(8115, "Arithmetic overflow error converting %ls to data type %ls.", state=2),
    SystemMessage(
        8116,
        "Argument data type %ls is invalid for argument %d of %ls function.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(8117, "Operand data type %ls is invalid for %ls operator.", aborts=Aborts.SCOPE),
    SystemMessage(
        8120,
        "Column '%.*ls.%.*ls' is invalid in the select list because it is not contained in"
        " either an aggregate function or the GROUP BY clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8121,
        "Column '%.*ls.%.*ls' is invalid in the HAVING clause because it is not contained in"
        " either an aggregate function or the GROUP BY clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8127,
        'Column "%.*ls.%.*ls" is invalid in the ORDER BY clause because it is not contained'
        " in either an aggregate function or the GROUP BY clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(8134, "Divide by zero error encountered."),
    SystemMessage(
        8139,
        "Number of referencing columns in foreign key differs from number of referenced"
        " columns, table '%.*ls'.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(8143, "Parameter '%.*ls' was supplied multiple times."),
    SystemMessage(8144, "Procedure or function %.*ls has too many arguments specified."),
    SystemMessage(8145, "%.*ls is not a parameter for procedure %.*ls."),
    SystemMessage(8146, "Procedure %.*ls has no parameters and arguments were supplied.", state=2),
    SystemMessage(8152, "String or binary data would be truncated."),
    SystemMessage(
        8153,
        "Warning: Null value is eliminated by an aggregate or other SET operation.",
        severity=10,
    ),
    SystemMessage(8154, "The table '%.*ls' is ambiguous.", aborts=Aborts.SCOPE),
    SystemMessage(
        8155, "No column name was specified for column %d of '%.*ls'.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        8158,
        "'%.*ls' has more columns than were specified in the column list.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8159,
        "'%.*ls' has fewer columns than were specified in the column list.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8161,
        "Argument %d of the %ls function does not match any of the expressions in the GROUP"
        " BY clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(8164, "An INSERT EXEC statement cannot be nested.", aborts=Aborts.BATCH),
    SystemMessage(
        8167,
        'The type of column "%.*ls" conflicts with the type of other columns specified in the'
        " UNPIVOT list.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8169,
        "Conversion failed when converting from a character string to uniqueidentifier.",
        state=2,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        8170, "Insufficient result space to convert uniqueidentifier value to char.", state=2
    ),
    SystemMessage(
        8172,
        'The argument %d of the XML data type method "%.*ls" must be a string literal.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8178,
        "The parameterized query '%.*ls' expects the parameter '%.*ls', which was not supplied.",
    ),
    SystemMessage(8179, "Could not find prepared statement with handle %d."),
    SystemMessage(
        8197,
        "The object '%.*ls' does not exist or is invalid for this operation.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        8631,
        "Internal error: Server stack limit has been reached. Please look for potentially"
        " deep nesting in your query, and try to simplify it.",
        severity=17,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        8632,
        "Internal error: An expression services limit has been reached. Please look for"
        " potentially complex expressions in your query, and try to simplify them.",
        severity=17,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        8672,
        "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This"
        " happens when a target row matches more than one source row. A MERGE statement"
        " cannot UPDATE/DELETE the same row of the target table multiple times. Refine the ON"
        " clause to ensure a target row matches at most one source row, or use the GROUP BY"
        " clause to group the source rows.",
    ),
    SystemMessage(
        9806, "The datepart %ls is not supported by date function datepart for this data type."
    ),
    SystemMessage(
        9810,
        "The datepart %ls is not supported by date function %ls for data type %ls.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(9812, "The timezone provided to builtin function is invalid."),
    SystemMessage(
        9819, "Error converting string value '%.*ls' into data type %ls using culture 'en-US'."
    ),
    SystemMessage(
        9820, "The time zone parameter '%.*ls' provided to AT TIME ZONE clause is invalid."
    ),
    SystemMessage(
        9828,
        "The second and third arguments of the TRANSLATE built-in function must contain an"
        " equal number of characters.",
    ),
    SystemMessage(
        9829,
        "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid"
        " result truncation.",
    ),
    SystemMessage(
        9834,
        "Invalid bucket width value passed to date_bucket function. Only positive values are"
        " allowed.",
    ),
    SystemMessage(
        10609,
        "Filtered index '%.*ls' cannot be created on table '%.*ls' because the column '%.*ls'"
        " in the filter expression is a computed column. Rewrite the filter expression so"
        " that it does not include this column.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10618,
        "Cannot %S_MSG filtered index '%.*ls' on table '%.*ls' because the statement sets the"
        " IGNORE_DUP_KEY option to ON. Rewrite the statement so that it does not use the"
        " IGNORE_DUP_KEY option.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10620, "Filtered index cannot be created as a clustered index.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        10700,
        'The table-valued parameter "%.*ls" is READONLY and cannot be modified.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10704,
        "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the"
        " THROW statement inside a CATCH block, or add error parameters to the THROW"
        " statement.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10709,
        "The number of columns for each row in a table value constructor must be the same.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10735,
        "Incorrect WHERE clause for filtered index '%.*ls' on table '%.*ls'.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10741,
        "A TOP can not be used in the same query or sub-query as a OFFSET.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10753, "The function '%.*ls' must have an OVER clause.", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        10754,
        "The function '%.*ls' must have a WITHIN GROUP clause.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10756, "The percentile value is not in the range between 0.0 and 1.0.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        10759,
        "Use of DISTINCT is not allowed with the OVER clause.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        10760,
        "Scale argument is not valid. Valid expressions for data type %.*ls scale argument"
        " are integer constants and integer constant expressions.",
        aborts=Aborts.SCOPE,
    ),
)
