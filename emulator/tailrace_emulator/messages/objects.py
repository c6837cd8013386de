"""Messages 2000 to 2999: objects, keys, types and SET options."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        2010, "Cannot perform alter on '%.*ls' because it is an incompatible object type."
    ),
    SystemMessage(
        2103,
        "Cannot %ls trigger '%.*ls' because its schema is different from the schema of the"
        " target table or view.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2110,
        "Cannot alter trigger '%.*ls' on '%.*ls' because this trigger does not belong to this"
        " object.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2111,
        "Cannot create trigger '%.*ls' on table '%.*ls' because an INSTEAD OF %ls trigger"
        " already exists on this object.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2113,
        "Cannot create INSTEAD OF DELETE or INSTEAD OF UPDATE TRIGGER '%.*ls' on table"
        " '%.*ls'. This is because the table has a FOREIGN KEY with cascading DELETE or"
        " UPDATE.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2389,
        "XQuery [value()]: '%ls' requires a singleton (or empty sequence), found operand of"
        " type '%ls'",
    ),
    SystemMessage(
        2501,
        'Cannot find a table or object with the name "%.*ls". Check the system catalog.',
        state=45,
    ),
    SystemMessage(
        2528,
        "DBCC execution completed. If DBCC printed error messages, contact your system"
        " administrator.",
        severity=10,
    ),
    SystemMessage(
        2557,
        "User '%.*ls' does not have permission to run DBCC CHECKIDENT for object '%.*ls'.",
        severity=14,
        state=5,
    ),
    SystemMessage(
        2601,
        "Cannot insert duplicate key row in object '%.*ls' with unique index '%.*ls'. The"
        " duplicate key value is %ls.",
        severity=14,
    ),
    SystemMessage(
        2627,
        "Violation of %ls constraint '%.*ls'. Cannot insert duplicate key in object '%.*ls'."
        " The duplicate key value is %ls.",
        severity=14,
    ),
    SystemMessage(
        2628,
        "String or binary data would be truncated in table '%.*ls', column '%.*ls'. Truncated"
        " value: '%.*ls'.",
    ),
    SystemMessage(
        2705,
        "Column names in each table must be unique. Column name '%.*ls' in table '%.*ls' is"
        " specified more than once.",
        state=4,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(2706, "Table '%.*ls' does not exist.", state=6),
    SystemMessage(
        2714,
        "There is already an object named '%.*ls' in the database.",
        state=6,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(2715, "Column, parameter, or variable #%d: Cannot find data type %.*ls."),
    SystemMessage(
        2720,
        "Cannot schema bind %S_MSG '%.*ls' because it references system object '%.*ls'.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(2727, "Cannot find index '%.*ls'.", severity=11),
    SystemMessage(
        2732,
        "Error number %ld is invalid. The number must be from %ld through %ld and it cannot"
        " be 50000.",
    ),
    SystemMessage(
        2740,
        "SET LANGUAGE failed because '%.*ls' is not an official language name or a language"
        " alias on this SQL Server.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(2741, "SET DATEFORMAT date order '%.*ls' is invalid.", aborts=Aborts.SCOPE),
    SystemMessage(2742, "SET DATEFIRST %d is out of range.", aborts=Aborts.SCOPE),
    SystemMessage(
        2744,
        "Multiple identity columns specified for table '%.*ls'. Only one identity column per"
        " table is allowed.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(2748, "Cannot specify %ls data type (parameter %d) as a substitution parameter."),
    SystemMessage(
        2749,
        "Identity column '%.*ls' must be of data type int, bigint, smallint, tinyint, or"
        " decimal or numeric with a scale of 0, unencrypted, and constrained to be"
        " nonnullable.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2750,
        "Column or parameter #1: Specified column precision %d is greater than the maximum"
        " precision of 38.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        2754,
        "Error severity levels greater than 18 can only be specified by members of the"
        " sysadmin role, using the WITH LOG option.",
    ),
    SystemMessage(
        2760,
        'The specified schema name "%.*ls" either does not exist or you do not have'
        " permission to use it.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(2767, "Could not locate statistics '%.*ls' in the system catalogs."),
    SystemMessage(
        2786,
        "The data type of substitution parameter %d does not match the expected type of the"
        " format specification.",
    ),
    SystemMessage(
        2788,
        "Synonyms are invalid in a schemabound object or a constraint expression.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(2812, "Could not find stored procedure '%.*ls'.", state=62),
)
