"""Messages 22000 to 49999: change data capture, contained users and THROW."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage

MESSAGES: Final = (
    SystemMessage(22022, "SQLServerAgent Error: %s."),
    SystemMessage(
        22832,
        "Could not update the metadata that indicates table %s is enabled for Change Data"
        " Capture. The failure occurred when executing the command '%s'. The error returned"
        " was %d: '%s'. Use the action and error to determine the cause of the failure and"
        " resubmit the request.",
    ),
    SystemMessage(
        22836,
        "Could not update the metadata for database %s to indicate that a Change Data Capture"
        " job has been added. The failure occurred when executing the command '%s'. The error"
        " returned was %d: '%s'. Use the action and error to determine the cause of the"
        " failure and resubmit the request.",
    ),
    SystemMessage(
        22838,
        "All columns of a CDC unique index must be defined as NOT NULL. Index '%s' selected"
        " as the CDC unique index for source table '%s.%s' does not meet this requirement."
        " Define all columns of the selected index as NOT NULL or select another unique index"
        " as the CDC index and resubmit the request.",
    ),
    SystemMessage(
        22842,
        "ALTER TABLE SWITCH statement failed because the partitioned destination table is"
        " enabled for Change Data Capture and does not have @allow_partition_switch set to 1.",
    ),
    SystemMessage(
        22843,
        "ALTER TABLE SWITCH statement failed because the partitioned source table is enabled"
        " for Change Data Capture and does not have @allow_partition_switch set to 1.",
    ),
    SystemMessage(
        22850,
        "The threshold value specified for the Change Data Capture cleanup process must be"
        " greater than 0. When creating or modifying the cleanup job, specify a positive"
        " threshold value. If this error is encountered when executing the"
        " sys.sp_cdc_cleanup_change_table stored procedure, reset the threshold value"
        " associated with the job to a non-negative value by using the sp_cdc_change_job"
        " stored procedure.",
    ),
    SystemMessage(
        22852,
        "Could not delete change table entries made obsolete by a change in one or more low"
        " water marks for capture instances of database %s. The failure occurred when"
        " executing the command '%s'. The error returned was %d: '%s'. Use the action and"
        " error to determine the cause of the failure and resubmit the request.",
        severity=10,
    ),
    SystemMessage(
        22855,
        "Warning: The @allow_partition_switch parameter is set to 1. Change data capture will"
        " not track changes introduced in the table resulting from a partition switch which"
        " will cause data inconsistency when changes are consumed. Refer to books online for"
        " more information about partition switching behavior when using Change Data Capture.",
        severity=10,
    ),
    SystemMessage(
        22856,
        "Warning: The @allow_partition_switch parameter is set to 0. ALTER TABLE ... SWITCH"
        " PARTITION statement will be disallowed on this partitioned table. Refer to books"
        " online for more information about partition switching behavior when using Change"
        " Data Capture.",
        severity=10,
    ),
    SystemMessage(
        22857,
        "Warning: The @allow_partition_switch parameter must be 1 for tables that are not"
        " partitioned. The explicit setting of the parameter to 0 was ignored. Refer to books"
        " online for more information about partition switching behavior when using Change"
        " Data Capture.",
        severity=10,
    ),
    SystemMessage(
        22859,
        "Log Scan process failed in processing log records. Refer to previous errors in the"
        " current session to identify the cause and correct any associated problems.",
    ),
    SystemMessage(
        22860,
        "Log scan process failed in processing a ddl log record. Refer to previous errors in"
        " the current session to identify the cause and correct any associated problems.",
    ),
    SystemMessage(
        22865,
        "The number of columns in the index '%s', used as the unique row identifier to"
        " support net changes for table '%s'.'%s', exceeds the limit of 14 columns. Set the"
        " parameter @supports_net_changes to 0 or use the @index_name parameter to identify a"
        " unique index with fewer than 15 columns as the unique row identifier and resubmit"
        " the request.",
    ),
    SystemMessage(
        22874,
        "Cannot set @enable_extended_ddl_handling parameter to 1 as this feature is not enabled.",
    ),
    SystemMessage(
        22901,
        "The database '%s' is not enabled for Change Data Capture. Ensure that the correct"
        " database context is set and retry the operation. To report on the databases enabled"
        " for Change Data Capture, query the is_cdc_enabled column in the sys.databases"
        " catalog view.",
    ),
    SystemMessage(
        22902,
        "Caller is not authorized to initiate the requested action. %s privileges are required.",
    ),
    SystemMessage(
        22903,
        "Another connection with session ID %I64d is already running 'sp_replcmds' for Change"
        " Data Capture in the current database.",
    ),
    SystemMessage(
        22904,
        "Caller is not authorized to initiate the requested action. DBO privileges are required.",
    ),
    SystemMessage(
        22905,
        "Database '%s' is already enabled for Change Data Capture. Ensure that the correct"
        " database context is set, and retry the operation. To report on the databases"
        " enabled for Change Data Capture, query the is_cdc_enabled column in the"
        " sys.databases catalog view.",
        severity=10,
    ),
    SystemMessage(
        22906,
        "The database '%s' cannot be enabled for Change Data Capture because a database user"
        " named 'cdc' or a schema named 'cdc' already exists in the current database. These"
        " objects are required exclusively by Change Data Capture. Drop or rename the user or"
        " schema and retry the operation.",
    ),
    SystemMessage(
        22907,
        "Parameter @role_name cannot be empty. Specify a value for @role_name and retry the"
        " operation. Supply null as the value if no role is to be used to gate access to"
        " captured change data.",
    ),
    SystemMessage(
        22910,
        "The cleanup request for database '%s' failed. The database is not enabled for Change"
        " Data Capture.",
    ),
    SystemMessage(
        22911,
        "The capture job cannot be used by Change Data Capture to extract changes from the"
        " log when transactional replication is also enabled on the same database. When"
        " Change Data Capture and transactional replication are both enabled on a database,"
        " use the logreader agent to extract the log changes.",
    ),
    SystemMessage(
        22918,
        "One or more columns in the list of included columns was not a captured column of the"
        " change table %s.",
    ),
    SystemMessage(
        22919,
        "One or more columns in the list of columns needing update flags was not a captured"
        " column of the change table %s.",
    ),
    SystemMessage(22920, "The named capture instance %s does not exist for database %s."),
    SystemMessage(
        22921,
        "Unable to generate scripts for all capture instances that the caller is authorized"
        " to access. To generate all such scripts, the parameters @column_list and"
        " @update_flag_list must both be null or empty.'",
    ),
    SystemMessage(
        22925,
        "The number of columns captured by capture instance '%s' exceeds the maximum allowed"
        " number: %d. Use the @captured_columns_list parameter to specify a subset of the"
        " columns less than or equal to the maximum allowed and resubmit the request.",
    ),
    SystemMessage(
        22926,
        "Could not create a capture instance because the capture instance name '%s' already"
        " exists in the current database. Specify an explicit unique name for the parameter"
        " @capture_instance.",
    ),
    SystemMessage(
        22927,
        "Capture instance name '%s' exceeds the length limit of 100 characters. Specify a"
        " name that satisfies the length constraint.",
    ),
    SystemMessage(
        22928,
        "Index name '%s' is not an index for table '%s.%s'. Specify a valid index name for"
        " the table.",
    ),
    SystemMessage(
        22929,
        "Index '%s' must be either a primary key or a unique index for table '%s.%s'. Specify"
        " an index that meets at least one of these requirements.",
    ),
    SystemMessage(
        22931,
        "Source table '%s.%s' does not exist in the current database. Ensure that the correct"
        " database context is set. Specify a valid schema and table name for the database.",
    ),
    SystemMessage(
        22932,
        "Capture instance name '%s' is invalid. Specify a valid name. See the topic"
        " 'Identifiers' in SQL Server Books Online for object name rules.",
    ),
    SystemMessage(
        22939,
        "The parameter @supports_net_changes is set to 1, but the source table does not have"
        " a primary key defined and no alternate unique index has been specified.",
    ),
    SystemMessage(
        22942,
        "Columns specified in the captured column list could not be mapped to columns in"
        " source table '%s.%s'. Verify that the columns specified in the parameter"
        " @captured_column_list are delimited properly and match columns in the source table.",
    ),
    SystemMessage(
        22943,
        "Columns used to uniquely identify a row for net change tracking must be included in"
        " the list of captured columns. Add either the primary key columns of the source"
        " table, or the columns defined for the index specified in the parameter @index_name"
        " to the list of captured columns and retry the operation.",
    ),
    SystemMessage(
        22957,
        "LSN %s, specified as the new low end point for the change table associated with"
        " capture instance '%s', is not within the Change Data Capture timeline [%s, %s].",
    ),
    SystemMessage(
        22960,
        "Change data capture instance '%s' has not been enabled for the source table '%s.%s'."
        " Use sys.sp_cdc_help_change_data_capture to verify the capture instance name and"
        " retry the operation.",
    ),
    SystemMessage(
        22962,
        "Two capture instances already exist for source table '%s.%s'. A table can have at"
        " most two capture instances. If the current tracking options are not appropriate,"
        " disable change tracking for the obsolete instance by using sys.sp_cdc_disable_table"
        " and retry the operation.",
    ),
    SystemMessage(
        22963,
        "Parameter '%s' cannot be null or empty. Specify a value for the named parameter and"
        " retry the operation.",
    ),
    SystemMessage(
        22964,
        "LSN %s, specified as the new low end point for change table cleanup must represent"
        " the start_lsn value of a current entry in the cdc.lsn_time_mapping table. Choose an"
        " LSN value that satisfies this requirement.",
    ),
    SystemMessage(
        22965,
        "A quoted column in the column list is not properly terminated. Verify that columns"
        " are correctly delimited and retry the operation. For more information, see"
        " 'Delimited Identifiers' in Books Online.",
    ),
    SystemMessage(
        22970,
        "The value for parameter @maxscans specified for the Change Data Capture job must be"
        " greater than 0.",
    ),
    SystemMessage(
        22972,
        "When calling stored procedure [sys].sp_cdc_help_change_data capture, if either"
        " @source_schema or @source_name is non-null and non-empty, the other parameter must"
        " also be non-null and non-empty.",
    ),
    SystemMessage(
        22973,
        "The specified filegroup '%s' is not a valid filegroup for database '%s'. Specify a"
        " valid existing filegroup or create the named filegroup, and retry the operation.",
    ),
    SystemMessage(
        22974, "Tables contained in the cdc schema cannot be enabled for Change Data Capture."
    ),
    SystemMessage(
        22975,
        "Source table '%s' contains one of the following reserved column names: __$start_lsn,"
        " __$end_lsn, __$seqval, __$operation, and __$update_mask. To enable Change Data"
        " Capture for this table, specify a captured column list and ensure that these"
        " columns are excluded from the list.",
    ),
    SystemMessage(
        22976,
        "Could not alter column '%s' of change table '%s' in response to a data type change"
        " in the corresponding column of the source table '%s'. The Change Data Capture meta"
        " data for source table '%s' no longer accurately reflects the source table. Refer to"
        " previous errors in the current session to identify the cause and correct any"
        " associated problems.",
    ),
    SystemMessage(
        22979,
        "The unique index '%s' on table '%s' is used by Change Data Capture. The constraint"
        " using this index cannot be dropped or disabled.",
    ),
    SystemMessage(22981, "Object does not exist or access is denied."),
    SystemMessage(
        22983,
        "The unique index '%s' on source table '%s' is used by Change Data Capture. To alter"
        " or drop the index, you must first disable Change Data Capture on the table.",
    ),
    SystemMessage(
        22985,
        "Change data capture has not been enabled for source table '%s.%s'. Specify the name"
        " of a table enabled for Change Data Capture. To report on the tables enabled for"
        " Change Data Capture, query the is_tracked_by_cdc column in the sys.tables catalog"
        " view.",
    ),
    SystemMessage(
        22989,
        "Could not enable Change Data Capture for database '%s'. Change data capture is not"
        " supported on system databases, or on a distribution database.",
    ),
    SystemMessage(
        22990,
        "The value specified for the parameter @pollinginterval must be greater than or equal"
        " to 0 and less than 24 hours(Max: 86399 seconds). Specify a polling interval (in"
        " seconds) that is less than 24 hours (86,400 seconds).",
    ),
    SystemMessage(22991, "The value specified for the parameter @maxtrans must be greater than 0."),
    SystemMessage(
        22992,
        "The specified @job_type, %s, is not supported. The value specified for the parameter"
        " @job_type must be N'capture' to indicate a capture job, or N'cleanup' to indicate a"
        " cleanup job.",
    ),
    SystemMessage(
        22994,
        "The retention value specified for the Change Data Capture cleanup process must be"
        " greater than 0 and less than or equal to 52594800. When creating or modifying the"
        " cleanup job, specify a retention value (in minutes) that is within that range. If"
        " this error is encountered when executing the sys.sp_cdc_cleanup_change_table stored"
        " procedure, reset the retention value associated with the job to a non-negative"
        " value less than 52594800 by using the sp_cdc_change_job stored procedure.",
    ),
    SystemMessage(
        22995,
        "A value for the parameter @retention cannot be specified when the job type is"
        " 'capture'. Specify NULL for the parameter, or omit the parameter from the"
        " statement.",
    ),
    SystemMessage(
        22996,
        "When adding or modifying the CDC cleanup job, @pollinginterval, @maxtrans,"
        " @maxscans, and @continuous may not be assigned non-null values.",
    ),
    SystemMessage(
        22997,
        "The Change Data Capture '%s' job does not exist in the system table"
        " 'msdb.dbo.cdc_jobs'. Use the stored procedure 'sys.sp_cdc_add_job' to add the"
        " Change Data Capture job.",
    ),
    SystemMessage(22998, "The value specified for the parameter @continuous must be 0 or 1."),
    SystemMessage(
        22999,
        "The value specified for the parameter @pollinginterval must be null or 0 when the"
        " stored procedure 'sys.sp_cdc_scan' is not being run in continuous mode.",
    ),
    SystemMessage(33233, "You can only create a user with a password in a contained database."),
    SystemMessage(
        35100,
        "Error number %d in the THROW statement is outside the valid range. Specify an error"
        " number in the valid range of 50000 to 2147483647.",
        state=10,
    ),
)
