"""Messages 11000 to 14999: sequences, JSON, replication and jobs."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        11700, "The increment for sequence object '%.*ls' cannot be zero.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        11701,
        "The absolute value of the increment for sequence object '%.*ls' must be less than or"
        " equal to the difference between the minimum and maximum value of the sequence"
        " object.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11702,
        "The sequence object '%.*ls' must be of data type int, bigint, smallint, tinyint, or"
        " decimal or numeric with a scale of 0, or any user-defined data type that is based"
        " on one of the above integer data types.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11703,
        "The start value for sequence object '%.*ls' must be between the minimum and maximum"
        " value of the sequence object.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11705,
        "The minimum value for sequence object '%.*ls' must be less than its maximum value.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11716,
        "NEXT VALUE FOR function does not support the PARTITION BY clause.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11717,
        "NEXT VALUE FOR function does not support the OVER clause in default constraints,"
        " UPDATE statements, or MERGE statements.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11718,
        "NEXT VALUE FOR function does not support an empty OVER clause.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11719,
        "NEXT VALUE FOR function is not allowed in check constraints, default objects,"
        " computed columns, views, user-defined functions, user-defined aggregates,"
        " user-defined table types, sub-queries, common table expressions, derived tables or"
        " return statements.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11720,
        "NEXT VALUE FOR function is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP"
        " BY, HAVING, or ORDER BY clauses.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11721,
        "NEXT VALUE FOR function cannot be used directly in a statement that uses a DISTINCT,"
        " UNION, UNION ALL, EXCEPT or INTERSECT operator.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11723,
        "NEXT VALUE FOR function cannot be used directly in a statement that contains an"
        " ORDER BY clause unless the OVER clause is specified.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11725,
        "An expression that contains a NEXT VALUE FOR function cannot be passed as an"
        " argument to an aggregate.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11727,
        "NEXT VALUE FOR functions for a given sequence object must have exactly the same OVER"
        " clause definition.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11728,
        "The sequence object '%.*ls' has reached its minimum or maximum value. Restart the"
        " sequence object to allow new values to be generated.",
    ),
    SystemMessage(
        11732,
        "The requested range for sequence object '%.*ls' exceeds the maximum or minimum"
        " limit. Retry with a smaller range.",
    ),
    SystemMessage(11733, "Parameter '%.*ls' must be a positive integer."),
    SystemMessage(
        11737,
        "NEXT VALUE FOR function does not support the ROWS and RANGE clauses.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11739,
        "NEXT VALUE FOR function cannot be used if ROWCOUNT option has been set, or the query"
        " contains TOP or OFFSET.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        11741,
        "NEXT VALUE FOR function cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL"
        " and NULLIF.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        13600,
        "FOR JSON AUTO requires at least one table for generating JSON objects. Use FOR JSON"
        " PATH or add a FROM clause with a table name.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        13601,
        "Property '%s' cannot be generated in JSON output due to a conflict with another"
        " column name or alias. Use different names and aliases for each column in SELECT"
        " list.",
    ),
    SystemMessage(
        13605,
        "Column expressions and data sources without names or aliases cannot be formatted as"
        " JSON text using FOR JSON clause. Add alias to the unnamed column or table.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        13607,
        "JSON path is not properly formatted. Unexpected character '%s' is found at position %d.",
        state=4,
    ),
    SystemMessage(13608, "Property cannot be found on the specified JSON path.", state=2),
    SystemMessage(
        13609,
        "JSON text is not properly formatted. Unexpected character '%s' is found at position %d.",
        state=2,
    ),
    SystemMessage(13610, "The JSON text is too deeply nested: the limit is 128 levels."),
    SystemMessage(
        13618,
        "AS JSON option can be specified only for column of nvarchar(max) type in WITH clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(13619, "Unsupported JSON path found in argument 2 of JSON_MODIFY."),
    SystemMessage(
        13620,
        "ROOT option and WITHOUT_ARRAY_WRAPPER option cannot be used together in FOR JSON."
        " Remove one of these options.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(13623, "Scalar value cannot be found in the specified JSON path.", state=2),
    SystemMessage(13624, "Object or array cannot be found in the specified JSON path.", state=2),
    SystemMessage(13625, "String value in the specified JSON path would be truncated."),
    SystemMessage(14013, "This database is not enabled for publication."),
    SystemMessage(14016, "The publication '%s' already exists."),
    SystemMessage(
        14026, "The value for the @repl_freq parameter must be either 'continuous' or 'snapshot'."
    ),
    SystemMessage(14030, "The article '%s' exists on publication '%s'."),
    SystemMessage(14043, "The parameter %s cannot be NULL."),
    SystemMessage(
        14088,
        "The table '%s' must have a primary key to be published using the transaction-based"
        " method.",
    ),
    SystemMessage(14137, "The value for the @value parameter must be either 'true' or 'false'."),
    SystemMessage(14138, "Invalid option name '%s'."),
    SystemMessage(14243, "Job '%s' started successfully.", severity=10),
    SystemMessage(14254, "Job '%s' stopped successfully.", severity=10),
    SystemMessage(14261, "The specified @name ('%s') already exists."),
    SystemMessage(14262, "The specified @job_name ('%s') does not exist."),
    SystemMessage(14266, "The specified '%s' is invalid."),
    SystemMessage(14294, "Supply either %s or %s to identify the job."),
    SystemMessage(14371, "There are two or more schedules named '%s'."),
)
