"""Messages 1000 to 1999: definitions, locks, indexes and foreign keys."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        1001,
        "Line %d: Length or precision specification %d is invalid.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1002, "Line %d: Specified scale %d is invalid.", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        1007,
        "The number '%.*ls' is out of the range for numeric representation (maximum precision 38).",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1013,
        'The objects "%.*ls" and "%.*ls" in the FROM clause have the same exposed names. Use'
        " correlation names to distinguish them.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1020,
        "Sub-entity lists (such as column or security expressions) cannot be specified for"
        " entity-level permissions.",
        severity=15,
    ),
    SystemMessage(1031, "Percent values must be between 0 and 100.", severity=15),
    SystemMessage(
        1033,
        "The ORDER BY clause is invalid in views, inline functions, derived tables,"
        " subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also"
        " specified.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1038,
        "An object or column name is missing or empty. For SELECT INTO statements, verify"
        " each column has a name.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1054, "Syntax '*' is not allowed in schema-bound objects.", severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        1056,
        "The number of elements in the select list exceeds the maximum allowed number of %d"
        " elements.",
        severity=15,
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        1060,
        "The number of rows provided for a TOP or FETCH clauses row count parameter must be"
        " an integer.",
        severity=15,
    ),
    SystemMessage(
        1062,
        "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(1080, "The integer value %.*ls is out of range.", aborts=Aborts.SCOPE),
    SystemMessage(
        1087, 'Must declare the table variable "%.*ls".', severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        1088,
        'Cannot find the object "%.*ls" because it does not exist or you do not have permissions.',
        state=12,
    ),
    SystemMessage(
        1205,
        "Transaction (Process ID %d) was deadlocked on %.*ls resources with another process"
        " and has been chosen as the deadlock victim. Rerun the transaction.",
        severity=13,
        state=51,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(1222, "Lock request time out period exceeded.", state=51),
    SystemMessage(
        1223,
        "Cannot release the application lock (Database Principal: '%.*ls', Resource: '%.*ls')"
        " because it is not currently held.",
    ),
    SystemMessage(
        1505,
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for"
        " the object name '%.*ls' and the index name '%.*ls'. The duplicate key value is %ls.",
    ),
    SystemMessage(
        1753,
        "Column '%.*ls.%.*ls' is not the same length or scale as referencing column"
        " '%.*ls.%.*ls' in foreign key '%.*ls'. Columns participating in a foreign key"
        " relationship must be defined with the same length and scale.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1757,
        "Column '%.*ls.%.*ls' is not of same collation as referencing column '%.*ls.%.*ls' in"
        " foreign key '%.*ls'.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1759,
        "Computed column '%.*ls' in table '%.*ls' is not allowed to be used in another"
        " computed-column definition.",
        state=0,
    ),
    SystemMessage(
        1761,
        'Cannot create the foreign key "%.*ls" with the SET NULL referential action, because'
        " one or more referencing columns are not nullable.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1762,
        'Cannot create the foreign key "%.*ls" with the SET DEFAULT referential action,'
        " because one or more referencing not-nullable columns lack a default constraint.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1763,
        "Cross-database foreign key references are not supported. Foreign key '%.*ls'.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(1767, "Foreign key '%.*ls' references invalid table '%.*ls'.", state=0),
    SystemMessage(
        1769,
        "Foreign key '%.*ls' references invalid column '%.*ls' in referencing table '%.*ls'.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1770,
        "Foreign key '%.*ls' references invalid column '%.*ls' in referenced table '%.*ls'.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1773,
        "Foreign key '%.*ls' has implicit reference to object '%.*ls' which does not have a"
        " primary key defined on it.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1774,
        "The number of columns in the referencing column list for foreign key '%.*ls' does"
        " not match those of the primary key in the referenced table '%.*ls'.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1776,
        "There are no primary or candidate keys in the referenced table '%.*ls' that match"
        " the referencing column list in the foreign key '%.*ls'.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1778,
        "Column '%.*ls.%.*ls' is not the same data type as referencing column '%.*ls.%.*ls'"
        " in foreign key '%.*ls'.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(1779, "Table '%.*ls' already has a primary key defined on it.", state=0),
    SystemMessage(
        1785,
        "Introducing FOREIGN KEY constraint '%.*ls' on table '%.*ls' may cause cycles or"
        " multiple cascade paths. Specify ON DELETE NO ACTION or ON UPDATE NO ACTION, or"
        " modify other FOREIGN KEY constraints.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1787,
        "Cannot define foreign key constraint '%.*ls' with cascaded DELETE or UPDATE on table"
        " '%.*ls' because the table has an INSTEAD OF DELETE or UPDATE TRIGGER defined on it.",
        state=0,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        1801, "Database '%.*ls' already exists. Choose a different database name.", state=3
    ),
    SystemMessage(
        1828, 'The logical file name "%.*ls" is already in use. Choose a different name.', state=3
    ),
    SystemMessage(
        1902,
        "Cannot create more than one clustered index on %S_MSG '%.*ls'. Drop the existing"
        " clustered index '%.*ls' before creating another.",
        state=3,
    ),
    SystemMessage(
        1908,
        "Column '%.*ls' is partitioning column of the index '%.*ls'. Partition columns for a"
        " unique index must be a subset of the index key.",
    ),
    SystemMessage(
        1911, "Column name '%.*ls' does not exist in the target table or view.", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        1913,
        "The operation failed because an index or statistics with name '%.*ls' already exists"
        " on %S_MSG '%.*ls'.",
    ),
    SystemMessage(
        1915,
        "Cannot alter a non-unique index with ignore_dup_key index option. Index '%.*ls' is"
        " non-unique.",
    ),
    SystemMessage(1916, "CREATE INDEX options %ls and %ls are mutually exclusive."),
    SystemMessage(
        1919,
        "Column '%.*ls' in table '%.*ls' is of a type that is invalid for use as a key"
        " column in an index.",
    ),
    SystemMessage(1921, "Invalid %S_MSG '%.*ls' specified."),
    SystemMessage(1927, "There are already statistics on table '%.*ls' named '%.*ls'."),
    SystemMessage(
        1934,
        "%ls failed because the following SET options have incorrect settings: '%.*ls'."
        " Verify that SET options are correct for use with %S_MSG.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        1979,
        "Cannot use index option %ls to alter index '%.*ls' as it enforces a primary or unique"
        " constraint.",
    ),
)
