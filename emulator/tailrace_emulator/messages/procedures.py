"""Messages 15000 to 21999: principals, system procedures, cursors and logins."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import Source, SystemMessage

MESSAGES: Final = (
    SystemMessage(
        15001, "Object '%ls' does not exist or is not a valid object for this operation."
    ),
    SystemMessage(15002, "The procedure '%s' cannot be executed within a transaction."),
    SystemMessage(15005, "Statistics for all tables have been updated.", severity=10),
    SystemMessage(15007, "'%s' is not a valid login or you do not have permission."),
    SystemMessage(
        15009, "The object '%s' does not exist in database '%s' or is invalid for this operation."
    ),
    SystemMessage(
        15010,
        "The database '%s' does not exist. Supply a valid database name. To see available"
        " databases, use sys.databases.",
    ),
    SystemMessage(15023, "User, group, or role '%s' already exists in the current database."),
    SystemMessage(15025, "The server principal '%s' already exists."),
    SystemMessage(15063, "The login already has an account under a different user name."),
    SystemMessage(15070, "Object '%s' was successfully marked for recompilation.", severity=10),
    SystemMessage(15081, "Membership of the public role cannot be changed."),
    SystemMessage(
        15110, "The proposed new database owner is already a user or aliased in the database."
    ),
    SystemMessage(
        15116,
        "Password validation failed. The password does not meet the operating system policy"
        " requirements because it is too short.",
    ),
    SystemMessage(
        15118,
        "Password validation failed. The password does not meet the operating system policy"
        " requirements because it is not complex enough.",
    ),
    SystemMessage(15122, "The CHECK_EXPIRATION option cannot be used when CHECK_POLICY is OFF."),
    SystemMessage(
        15123, "The configuration option '%s' does not exist, or it may be an advanced option."
    ),
    SystemMessage(
        15128,
        "The CHECK_POLICY and CHECK_EXPIRATION options cannot be turned OFF when MUST_CHANGE"
        " is ON.",
    ),
    SystemMessage(15129, "'%d' is not a valid value for configuration option '%s'."),
    SystemMessage(
        15135,
        "Object is invalid. Extended properties are not permitted on '%s', or the object does"
        " not exist.",
    ),
    SystemMessage(
        15138, "The database principal owns a %S_MSG in the database, and cannot be dropped."
    ),
    SystemMessage(15144, "The role has members. It must be empty before it can be dropped."),
    SystemMessage(15150, "Cannot %S_MSG the %S_MSG '%.*ls'."),
    SystemMessage(
        15151,
        "Cannot %S_MSG the %S_MSG '%.*ls', because it does not exist or you do not have"
        " permission.",
    ),
    SystemMessage(15165, "Could not find object '%ls' or you do not have permission."),
    SystemMessage(
        15174,
        "Login '%s' owns one or more database(s). Change the owner of the database(s) before"
        " dropping the login.",
    ),
    SystemMessage(
        15183, "The database principal owns objects in the database and cannot be dropped."
    ),
    SystemMessage(15197, "There is no text for object '%s'."),
    SystemMessage(
        15217, "Property cannot be updated or deleted. Property '%.*ls' does not exist for '%.*ls'."
    ),
    SystemMessage(
        15225,
        "No item by the name of '%s' could be found in the current database '%s', given that"
        " @itemtype was input as '%s'.",
        severity=11,
    ),
    SystemMessage(15233, "Property cannot be added. Property '%.*ls' already exists for '%.*ls'."),
    SystemMessage(15234, "Objects of this type have no space allocated."),
    SystemMessage(15247, "User does not have permission to perform this action."),
    SystemMessage(
        15248,
        "Either the parameter @objname is ambiguous or the claimed @objtype (%s) is wrong.",
        severity=11,
    ),
    SystemMessage(
        15250,
        "The database name component of the object qualifier must be the name of the current"
        " database.",
    ),
    SystemMessage(
        15335,
        "Error: The new name '%s' is already in use as a %s name and would cause a duplicate"
        " that is not permitted.",
        severity=11,
    ),
    SystemMessage(
        15336,
        "Object '%s' cannot be renamed because the object participates in enforced dependencies.",
    ),
    SystemMessage(15405, "Cannot use the special principal '%s'.", severity=11),
    SystemMessage(
        15406,
        'Cannot execute as the server principal because the principal "%.*ls" does not exist,'
        " this type of principal cannot be impersonated, or you do not have permission.",
    ),
    SystemMessage(15410, "User or role '%s' does not exist in this database.", severity=11),
    SystemMessage(15413, "Cannot make a role a member of itself.", severity=11),
    SystemMessage(15434, "Could not drop login '%s' as the user is currently logged in."),
    SystemMessage(
        15457,
        "Configuration option '%ls' changed from %ld to %ld. Run the RECONFIGURE statement to"
        " install.",
        severity=10,
    ),
    SystemMessage(
        15469,
        "No constraints are defined on object '%ls', or you do not have permissions.",
        severity=10,
    ),
    SystemMessage(
        15470,
        "No foreign keys reference table '%ls', or you do not have permissions on referencing"
        " tables.",
        severity=10,
    ),
    SystemMessage(
        15472,
        "The object '%ls' does not have any indexes, or you do not have permissions.",
        severity=10,
    ),
    SystemMessage(
        15477,
        "Caution: Changing any part of an object name could break scripts and stored procedures.",
        severity=10,
    ),
    SystemMessage(
        15517,
        'Cannot execute as the database principal because the principal "%.*ls" does not'
        " exist, this type of principal cannot be impersonated, or you do not have"
        " permission.",
    ),
    SystemMessage(
        15600, "An invalid parameter or option was specified for procedure '%s'.", severity=15
    ),
    SystemMessage(
        15664,
        "Cannot set key '%ls' in the session context. The key has been set as read_only for"
        " this session.",
    ),
    SystemMessage(15666, "Cannot set key in the session context. The key cannot be NULL."),
    SystemMessage(
        16002, "Invalid data masking function in column '%.*ls'.", source=Source.INFERRED
    ),
    SystemMessage(
        16003,
        "The data type of column '%.*ls' does not support data masking function '%.*ls'.",
        source=Source.INFERRED,
    ),
    SystemMessage(
        16004,
        "Incorrect number of parameters for data masking function '%.*ls' in column '%.*ls'.",
        source=Source.INFERRED,
    ),
    SystemMessage(
        16007,
        "The column '%.*ls' does not have a data masking function.",
        source=Source.INFERRED,
    ),
    SystemMessage(16905, "The cursor is already open."),
    SystemMessage(16909, "%ls: The cursor identifier value provided (%x) is not valid."),
    SystemMessage(16915, "A cursor with the name '%.*ls' already exists."),
    SystemMessage(16916, "A cursor with the name '%.*ls' does not exist."),
    SystemMessage(16917, "Cursor is not open."),
    SystemMessage(
        16924,
        "Cursorfetch: The number of variables declared in the INTO list must match that of"
        " selected columns.",
    ),
    SystemMessage(
        16937,
        "A server cursor cannot be opened on the given statement or statements. Use a default"
        " result set or client cursor.",
    ),
    SystemMessage(
        18054,
        "Error %d, severity %d, state %d was raised, but no message with that error number"
        " was found in sys.messages. If error is larger than 50000, make sure the"
        " user-defined message is added using sp_addmessage.",
    ),
    SystemMessage(18456, "Login failed for user '%.*ls'.", severity=14, is_logged=True),
    SystemMessage(
        18464,
        "Login failed for user '%.*ls'. Reason: Password change failed. The password does not meet"
        " the operating system policy requirements because it is too short.",
        severity=14,
        source=Source.INFERRED,
    ),
    SystemMessage(
        18466,
        "Login failed for user '%.*ls'. Reason: Password change failed. The password does not meet"
        " the operating system policy requirements because it is not complex enough.",
        severity=14,
        source=Source.INFERRED,
    ),
    SystemMessage(
        18470, "Login failed for user '%.*ls'. Reason: The account is disabled.", severity=14
    ),
    SystemMessage(
        18488,
        "Login failed for user '%.*ls'.  Reason: The password of the account must be changed.",
        severity=14,
    ),
    SystemMessage(
        18752,
        "Only one Log Reader Agent or log-related procedure (sp_repldone, sp_replcmds, and"
        " sp_replshowcmds) can connect to a database at a time. If you executed a log-related"
        " procedure, drop the connection over which the procedure was executed or execute"
        " sp_replflush over that connection before starting the Log Reader Agent or executing"
        " another log-related procedure.",
        source=Source.INFERRED,
    ),
    SystemMessage(
        18757,
        "Unable to execute procedure. The database is not published. Execute the procedure in a"
        " database that is published for replication.",
        source=Source.INFERRED,
    ),
    SystemMessage(20009, "The article '%s' could not be added to the publication '%s'."),
    SystemMessage(20026, "The publication '%s' does not exist.", severity=11),
    SystemMessage(20027, "The article '%s' does not exist.", severity=11),
)
