"""Messages 5000 to 7999: databases, KILL, XML, large values and partitions."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import Source, SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(
        5011,
        "User does not have permission to alter database '%.*ls', the database does not"
        " exist, or the database is not in a state that allows access checks.",
        severity=14,
        state=5,
    ),
    SystemMessage(5016, "Cannot change the name of the system database %ls."),
    SystemMessage(
        5028,
        "The system could not activate enough of the database to add a file to filegroup"
        " '%.*ls', which does not exist.",
    ),
    SystemMessage(5042, "The %S_MSG '%.*ls' cannot be removed because it is not empty."),
    SystemMessage(5074, "The %S_MSG '%.*ls' is dependent on %S_MSG '%.*ls'."),
    SystemMessage(5313, "Synonym '%.*ls' refers to an invalid object.", aborts=Aborts.SCOPE),
    SystemMessage(
        5335,
        "The data type %ls cannot be used as an operand to the UNION, INTERSECT or EXCEPT"
        " operators because it is not comparable.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(5362, "Window '%.*ls' is undefined.", aborts=Aborts.SCOPE),
    SystemMessage(
        5373, "All numerical input arguments must be of the same type.", aborts=Aborts.SCOPE
    ),
    SystemMessage(5701, "Changed database context to '%.*ls'.", severity=10, state=2),
    SystemMessage(5703, "Changed language setting to %.*ls.", severity=10),
    SystemMessage(6005, "SHUTDOWN is in progress.", severity=14, aborts=Aborts.TRANSACTION),
    SystemMessage(6101, "Session ID %d is not valid."),
    SystemMessage(6102, "User does not have permission to use the KILL statement.", severity=14),
    SystemMessage(6104, "Cannot use KILL to kill your own process."),
    SystemMessage(6106, "Process ID %d is not an active process ID.", state=2),
    SystemMessage(6107, "Only user processes can be killed.", severity=14),
    SystemMessage(6115, "KILL command cannot be used inside user transactions."),
    SystemMessage(
        6120,
        "Status report cannot be obtained. Rollback operation for Process ID %d is not in"
        " progress.",
    ),
    SystemMessage(
        6401, "Cannot roll back %.*ls. No transaction or savepoint of that name was found."
    ),
    SystemMessage(
        6522,
        "A .NET Framework error occurred during execution of user-defined routine or aggregate"
        ' "%.*ls": %ls.',
    ),
    SystemMessage(
        6809,
        "Unnamed tables cannot be used as XML identifiers as well as unnamed columns cannot"
        " be used for attribute names. Name unnamed columns/tables using AS in the SELECT"
        " statement.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        6810,
        "FOR XML AUTO requires at least one table for generating XML tags. Use FOR XML RAW or"
        " add a FROM clause with a table name.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        6852,
        "Attribute-centric column '%.*ls' must not come after a non-attribute-centric sibling"
        " in XML hierarchy in FOR XML PATH.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        6860, "FOR XML directive XMLDATA is not allowed with AUTO(...).", aborts=Aborts.SCOPE
    ),
    SystemMessage(
        6864,
        "Row tag omission (empty row tag name) cannot be used with attribute-centric FOR XML"
        " serialization.",
    ),
    SystemMessage(7116, "Offset %d is not in the range of available LOB data."),
    SystemMessage(
        7119,
        "Attempting to grow LOB beyond maximum allowed size of 2147483647 bytes.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(7122, "Invalid text, ntext, or image pointer type. Must be binary(16)."),
    SystemMessage(7123, "Invalid text, ntext, or image pointer value %hs."),
    SystemMessage(
        7124,
        "The offset and length specified in the READTEXT statement is greater than the actual"
        " data length of %d.",
    ),
    SystemMessage(
        7125, "The text, ntext, or image pointer value conflicts with the column name specified."
    ),
    SystemMessage(7133, "NULL textptr (text, ntext, or image pointer) passed to %ls function."),
    SystemMessage(
        7135, "Deletion length %d is not in the range of available text, ntext, or image data."
    ),
    SystemMessage(
        7139,
        "Length of LOB data (%d) to be replicated exceeds configured maximum %d. Use the"
        " stored procedure sp_configure to increase the configured maximum value for max text"
        " repl size option, which defaults to 65536. A configured value of -1 indicates no"
        " limit, other than the limit imposed by the data type.",
    ),
    SystemMessage(
        7339,
        "OLE DB provider '%ls' for linked server '%ls' returned invalid data for column '%ls.%ls'.",
    ),
    SystemMessage(
        7702,
        "Empty Partition function type-parameter-list is not allowed when defining a"
        " partition function.",
    ),
    SystemMessage(
        7706, "Partition function '%.*ls' is being used by one or more partition schemes."
    ),
    SystemMessage(
        7707,
        "The associated partition function '%.*ls' generates more partitions than there are"
        " file groups mentioned in the scheme '%.*ls'.",
    ),
    SystemMessage(
        7708,
        "Duplicate values are not allowed in partition function boundary values list."
        " Partition boundary values at ordinal %d are equal.",
    ),
    SystemMessage(
        7709,
        "Warning: Range value list for partition function '%.*ls' is not sorted by value."
        " Mapping of partitions to filegroups during CREATE PARTITION SCHEME will use the"
        " sorted boundary values if the function '%.*ls' is referenced in CREATE PARTITION"
        " SCHEME.",
        severity=10,
    ),
    SystemMessage(7714, "There is already an object named '%.*ls' in the database.", state=6),
    SystemMessage(7715, "The specified partition range value could not be found."),
    SystemMessage(
        7717,
        "The partition scheme '%.*ls' is currently being used to partition one or more tables.",
        source=Source.INFERRED,
    ),
    SystemMessage(
        7721,
        "Duplicate range boundary values are not allowed in partition function boundary"
        " values list. The boundary value being added is already present at ordinal %d of the"
        " boundary value list.",
    ),
    SystemMessage(
        7726,
        "Partition column '%.*ls' has data type %ls which is different from the partition"
        " function '%.*ls' parameter data type %ls.",
    ),
    SystemMessage(7997, "'%.*ls' does not contain an identity column."),
    SystemMessage(7998, "Checking identity information: %ls.", severity=10),
    SystemMessage(7999, "Could not find any index named '%.*ls' for table '%.*ls'.", state=9),
)
