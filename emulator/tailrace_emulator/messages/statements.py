"""Messages 300 to 999: clauses, statements, constraints and databases."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        300,
        "%ls permission was denied on object '%.*ls', database '%.*ls'.",
        severity=14,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        305,
        "The XML data type cannot be compared or sorted, except when using the IS NULL operator.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        306,
        "The text, ntext, and image data types cannot be compared or sorted, except when using"
        " IS NULL or LIKE operator.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        310,
        "The value %d specified for the MAXRECURSION option exceeds the allowed maximum of %d.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        313,
        "An insufficient number of arguments were supplied for the procedure or function %.*ls.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        331,
        "The target table '%.*ls' of the OUTPUT INTO clause cannot have any enabled triggers.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        334,
        "The target table '%.*ls' of the DML statement cannot have any enabled triggers if"
        " the statement contains an OUTPUT clause without INTO clause.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        346,
        'The parameter "%.*ls" can not be declared READONLY since it is not a table-valued'
        " parameter.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        352,
        'The table-valued parameter "%.*ls" must be declared with the READONLY option.',
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        402, "The data types %s and %s are incompatible in the %s operator.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        403,
        "Invalid operator for data type. Operator equals %ls, type equals %ls.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        421,
        "The %ls data type cannot be selected as DISTINCT because it is not comparable.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        443, "Invalid use of a side-effecting operator '%s' within a function.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        444,
        "Select statements included within a function cannot return data to a client.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(447, "Expression type %ls is invalid for COLLATE clause.", aborts=Aborts.SCOPE),
    SystemMessage(448, "Invalid collation '%.*ls'.", aborts=Aborts.BATCH),
    SystemMessage(
        452, "COLLATE clause cannot be used on user-defined data types.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        453,
        "Collation '%.*ls' is supported on Unicode data types only and cannot be set at the"
        " database or server level.",
    ),
    SystemMessage(
        455,
        "The last statement included within a function must be a return statement.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        459,
        "Collation '%.*ls' is supported on Unicode data types only and cannot be applied to"
        " char, varchar or text data types.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        468,
        'Cannot resolve the collation conflict between "%.*ls" and "%.*ls" in the %ls operation.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        500,
        "Trying to pass a table-valued parameter with %d column(s) where the corresponding"
        " user-defined table type requires %d column(s).",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        512,
        "Subquery returned more than 1 value. This is not permitted when the subquery follows"
        " =, !=, <, <= , >, >= or when the subquery is used as an expression.",
    ),
    SystemMessage(
        515,
        "Cannot insert the value NULL into column '%.*ls', table '%.*ls'; column does not"
        " allow nulls. %ls fails.",
        state=2,
    ),
    SystemMessage(517, "Adding a value to a '%ls' column caused an overflow."),
    SystemMessage(
        529, "Explicit conversion from data type %ls to %ls is not allowed.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        530,
        "The statement terminated. The maximum recursion %d has been exhausted before"
        " statement completion.",
    ),
    SystemMessage(
        535,
        "The %.*ls function resulted in an overflow. The number of dateparts separating two"
        " date/time instances is too large. Try to use %.*ls with a less precise datepart.",
    ),
    SystemMessage(536, "Invalid length parameter passed to the %ls function.", state=3),
    SystemMessage(
        537, "Invalid length parameter passed to the LEFT or SUBSTRING function.", state=3
    ),
    SystemMessage(
        544,
        "Cannot insert explicit value for identity column in table '%.*ls' when"
        " IDENTITY_INSERT is set to OFF.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        545,
        "Explicit value must be specified for identity column in table '%.*ls' either when"
        " IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR"
        " REPLICATION identity column.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        547,
        'The %ls statement conflicted with the %ls constraint "%.*ls". The conflict occurred'
        ' in database "%.*ls", table "%.*ls"%ls%.*ls%ls.',
        state=0,
    ),
    SystemMessage(
        550,
        "The attempted insert or update failed because the target view either specifies WITH"
        " CHECK OPTION or spans a view that specifies WITH CHECK OPTION and one or more rows"
        " resulting from the operation did not qualify under the CHECK OPTION constraint.",
    ),
    SystemMessage(
        596, "Cannot continue the execution because the session is in the kill state.", severity=21
    ),
    SystemMessage(
        628, "Cannot issue SAVE TRANSACTION when there is no active transaction.", state=0
    ),
    SystemMessage(
        650,
        "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ"
        " isolation levels.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        911,
        "Database '%.*ls' does not exist. Make sure that the name is entered correctly.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        913,
        "Could not find database ID %d. The database may be offline. Wait a few minutes and"
        " try again.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        916,
        'The server principal "%.*ls" is not able to access the database "%.*ls" under the'
        " current security context.",
        severity=14,
        state=2,
        aborts=Aborts.BATCH,
    ),
)
