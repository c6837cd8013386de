"""Messages 3000 to 4999: transactions, permissions and ALTER TABLE."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

MESSAGES: Final = (
    SystemMessage(3604, "Duplicate key was ignored.", severity=10),
    SystemMessage(3606, "Arithmetic overflow occurred.", severity=10),
    SystemMessage(3607, "Division by zero occurred.", severity=10),
    SystemMessage(
        3609,
        "The transaction ended in the trigger. The batch has been aborted.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        3616,
        "An error was raised during trigger execution. The batch has been aborted and the"
        " user transaction, if any, has been rolled back.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(3617, "The query was cancelled by the client.", severity=11, aborts=Aborts.BATCH),
    SystemMessage(3621, "The statement has been terminated.", severity=10),
    SystemMessage(3622, "Warning: An invalid floating point operation occurred.", severity=10),
    SystemMessage(3623, "An invalid floating point operation occurred."),
    SystemMessage(
        3701,
        "Cannot %S_MSG the %S_MSG '%.*ls', because it does not exist or you do not have"
        " permission.",
        severity=11,
        state=5,
    ),
    SystemMessage(3702, 'Cannot drop database "%.*ls" because it is currently in use.', state=3),
    SystemMessage(3708, "Cannot %S_MSG the %S_MSG '%.*ls' because it is a system %S_MSG."),
    SystemMessage(
        3724, "Cannot %S_MSG the %S_MSG '%.*ls' because it is being used for replication."
    ),
    SystemMessage(
        3726, "Could not drop object '%.*ls' because it is referenced by a FOREIGN KEY constraint."
    ),
    SystemMessage(3728, "'%.*ls' is not a constraint."),
    SystemMessage(3729, "Cannot %ls '%.*ls' because it is being referenced by object '%.*ls'."),
    SystemMessage(
        3732,
        "Cannot drop type '%.*ls' because it is being referenced by object '%.*ls'. There may"
        " be other objects that reference this type.",
    ),
    SystemMessage(3739, "Cannot %ls the index '%.*ls' because it is not a statistics collection."),
    SystemMessage(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    SystemMessage(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    SystemMessage(
        3915, "Cannot use the ROLLBACK statement within an INSERT-EXEC statement.", state=0
    ),
    SystemMessage(
        3916,
        "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN"
        " TRANSACTION is used first.",
        state=0,
    ),
    SystemMessage(
        3930,
        "The current transaction cannot be committed and cannot support operations that write"
        " to the log file. Roll back the transaction.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        3931,
        "The current transaction cannot be committed and cannot be rolled back to a"
        " savepoint. Roll back the entire transaction.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        3951,
        "Transaction failed in database '%.*ls' because the statement was run under snapshot"
        " isolation but the transaction did not start in snapshot isolation. You cannot change"
        " the isolation level of the transaction to snapshot after the transaction has started"
        " unless the transaction was originally started under snapshot isolation level.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        3952,
        "Snapshot isolation transaction failed accessing database '%.*ls' because snapshot"
        " isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot"
        " isolation.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        3960,
        "Snapshot isolation transaction aborted due to update conflict. You cannot use"
        " snapshot isolation to access table '%.*ls' directly or indirectly in database"
        " '%.*ls' to update, delete, or insert the row that has been modified or deleted by"
        " another transaction. Retry the transaction or change the isolation level for the"
        " update/delete statement.",
        state=2,
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        3961,
        "Snapshot isolation transaction failed in database '%.*ls' because the object accessed by"
        " the statement has been modified by a DDL statement in another concurrent transaction"
        " since the start of this transaction.  It is disallowed because the metadata is not"
        " versioned. A concurrent update to metadata can lead to inconsistency if mixed with"
        " snapshot isolation.",
        aborts=Aborts.TRANSACTION,
    ),
    SystemMessage(
        3998,
        "Uncommittable transaction is detected at the end of the batch. The transaction is"
        " rolled back.",
        aborts=Aborts.BATCH,
    ),
    SystemMessage(
        4002,
        "The incoming tabular data stream (TDS) protocol stream is incorrect. The stream"
        " ended unexpectedly.",
    ),
    SystemMessage(
        4019,
        "Language requested in login '%.*ls' is not an official language name on this SQL"
        " Server. Login fails.",
    ),
    SystemMessage(
        4060, 'Cannot open database "%.*ls" requested by the login. The login failed.', severity=11
    ),
    SystemMessage(
        4103, '"%.*ls": Temporary views are not allowed.', severity=15, aborts=Aborts.SCOPE
    ),
    SystemMessage(
        4104, 'The multi-part identifier "%.*ls" could not be bound.', aborts=Aborts.SCOPE
    ),
    SystemMessage(
        4108,
        "Windowed functions can only appear in the SELECT or ORDER BY clauses.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4109,
        "Windowed functions cannot be used in the context of another windowed function or"
        " aggregate.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4112,
        "The function '%.*ls' must have an OVER clause with ORDER BY.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4121,
        'Cannot find either column "%.*ls" or the user-defined function or aggregate "%.*ls",'
        " or the name is ambiguous.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4127,
        "At least one of the arguments to COALESCE must be an expression that is not the NULL"
        " constant.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4145,
        "An expression of non-boolean type specified in a context where a condition is"
        " expected, near '%.*ls'.",
        severity=15,
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4194,
        "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(4199, "Argument value %d is invalid for argument %d of %ls function."),
    SystemMessage(
        4403,
        "Cannot update the view or function '%.*ls' because it contains aggregates, or a"
        " DISTINCT or GROUP BY clause, or PIVOT or UNPIVOT operator.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4405,
        "View or function '%.*ls' is not updatable because the modification affects multiple"
        " base tables.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4406,
        "Update or insert of view or function '%.*ls' failed because it contains a derived or"
        " constant field.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4506,
        "Column names in each view or function must be unique. Column name '%.*ls' in view or"
        " function '%.*ls' is specified more than once.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4508,
        "Views or functions are not allowed on temporary tables. Table names that begin with"
        " '#' denote temporary tables.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4510,
        "Could not perform CREATE VIEW because WITH CHECK OPTION was specified and the view"
        " is not updatable.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4511,
        "Create View or Function failed because no column name was specified for column %d.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4512,
        "Cannot schema bind %S_MSG '%.*ls' because name '%.*ls' is invalid for schema"
        " binding. Names must be in two-part format and an object cannot reference itself.",
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4513, "Cannot schema bind %S_MSG '%.*ls'. '%.*ls' is not schema bound.", aborts=Aborts.SCOPE
    ),
    SystemMessage(4606, "Granted or revoked privilege %ls is not compatible with object."),
    SystemMessage(
        4610, "You can only grant or revoke permissions on objects in the current database."
    ),
    SystemMessage(4611, "To revoke or deny grantable privileges, specify the CASCADE option."),
    SystemMessage(4613, "Grantor does not have GRANT permission."),
    SystemMessage(4615, "Invalid column name '%.*ls'."),
    SystemMessage(4617, "Cannot grant, deny or revoke permissions to or from special roles."),
    SystemMessage(
        4621,
        "Permissions at the server scope can only be granted when the current database is master",
    ),
    SystemMessage(
        4623, "The all permission has been deprecated and is not available for this class of entity"
    ),
    SystemMessage(
        4624,
        "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner,"
        " information_schema, sys, or yourself.",
        severity=10,
    ),
    SystemMessage(
        4628,
        "The ALL permission is deprecated and maintained only for compatibility. It DOES NOT"
        " imply ALL permissions defined on the entity.",
        severity=10,
    ),
    SystemMessage(
        4701,
        'Cannot find the object "%.*ls" because it does not exist or you do not have permissions.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4711,
        "Cannot truncate table '%.*ls' because it is published for replication or enabled for"
        " Change Data Capture.",
    ),
    SystemMessage(
        4712,
        "Cannot truncate table '%.*ls' because it is being referenced by a FOREIGN KEY constraint.",
    ),
    SystemMessage(4815, "Received an invalid column length from the bcp client for colid %d."),
    SystemMessage(4816, "Invalid column type from bcp client for colid 1.", aborts=Aborts.BATCH),
    SystemMessage(
        4901,
        "ALTER TABLE only allows columns to be added that can contain nulls, or have a"
        " DEFAULT definition specified, or the column being added is an identity or timestamp"
        " column, or alternatively if none of the previous conditions are satisfied the table"
        " must be empty to allow addition of this column. Column '%.*ls' cannot be added to"
        " non-empty table '%.*ls' because it does not satisfy these conditions.",
    ),
    SystemMessage(
        4902,
        'Cannot find the object "%.*ls" because it does not exist or you do not have permissions.',
        aborts=Aborts.SCOPE,
    ),
    SystemMessage(
        4904,
        "ALTER TABLE SWITCH statement failed. The specified partition %d of target table"
        " '%.*ls' must be empty.",
    ),
    SystemMessage(
        4905, "ALTER TABLE SWITCH statement failed. The target table '%.*ls' must be empty."
    ),
    SystemMessage(
        4911,
        "Cannot specify a partitioned table without partition number in ALTER TABLE SWITCH"
        " statement. The table '%.*ls' is partitioned.",
    ),
    SystemMessage(
        4913,
        "ALTER TABLE SWITCH statement failed. The table '%.*ls' has clustered index '%.*ls'"
        " while the table '%.*ls' does not have clustered index.",
    ),
    SystemMessage(4917, "Constraint '%.*ls' does not exist."),
    SystemMessage(
        4920, "ALTER TABLE failed because trigger '%.*ls' on table '%.*ls' does not exist."
    ),
    SystemMessage(
        4923,
        "ALTER TABLE DROP COLUMN failed because '%.*ls' is the only data column in table '%.*ls'."
        " A table must have at least one data column.",
    ),
    SystemMessage(4924, "%ls failed because column '%.*ls' does not exist in table '%.*ls'."),
    SystemMessage(4928, "Cannot alter column '%.*ls' because it is '%ls'."),
    SystemMessage(
        4942,
        "ALTER TABLE SWITCH statement failed because column '%.*ls' at ordinal %d in table"
        " '%.*ls' has a different name than the column '%.*ls' at the same ordinal in table"
        " '%.*ls'.",
    ),
    SystemMessage(
        4943,
        "ALTER TABLE SWITCH statement failed because table '%.*ls' has %d columns and table"
        " '%.*ls' has %d columns.",
    ),
    SystemMessage(
        4944,
        "ALTER TABLE SWITCH statement failed because column '%.*ls' has data type %ls in"
        " source table '%.*ls' which is different from its type %ls in target table '%.*ls'.",
    ),
    SystemMessage(
        4947,
        "ALTER TABLE SWITCH statement failed. There is no identical index in source table"
        " '%.*ls' for the index '%.*ls' in target table '%.*ls' .",
    ),
    SystemMessage(
        4948,
        "ALTER TABLE SWITCH statement failed. The source table '%.*ls' is in database '%.*ls'"
        " while the target table '%.*ls' is in database '%.*ls'.",
    ),
    SystemMessage(
        4950,
        "ALTER TABLE SWITCH statement failed because partition number %d does not exist in"
        " table '%.*ls'.",
    ),
    SystemMessage(
        4955,
        "ALTER TABLE SWITCH statement failed. The source table '%.*ls' and target table"
        " '%.*ls' are same.",
    ),
    SystemMessage(
        4967,
        "ALTER TABLE SWITCH statement failed. SWITCH is not allowed because source table"
        " '%.*ls' contains primary key for constraint '%.*ls'.",
    ),
    SystemMessage(
        4973,
        "ALTER TABLE SWITCH statement failed. Range defined by partition %d in table '%.*ls'"
        " is not a subset of range defined by partition %d in table '%.*ls'.",
    ),
    SystemMessage(
        4982,
        "ALTER TABLE SWITCH statement failed. Check constraints of source table '%.*ls' allow"
        " values that are not allowed by range defined by partition %d on target table"
        " '%.*ls'.",
    ),
    SystemMessage(
        4985,
        "ALTER TABLE SWITCH statement failed because column '%.*ls' does not have the same"
        " nullability attribute in tables '%.*ls' and '%.*ls'.",
    ),
)
