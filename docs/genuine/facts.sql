-- What Tailrace believes about SQL Server, as questions with their two outcomes.
--
-- For a throw-away server with SQL Server Agent, as sysadmin; about ten minutes, nearly all of it waiting:
--
--   docker run -d --name sql -v "$PWD/facts.sql:/facts.sql:ro" -e ACCEPT_EULA=Y -e MSSQL_PID=Developer \
--     -e MSSQL_AGENT_ENABLED=true -e MSSQL_SA_PASSWORD='<password>' mcr.microsoft.com/mssql/server:2022-latest
--   docker exec sql /opt/mssql-tools18/bin/sqlcmd -C -S localhost -U sa -P '<password>' \
--     -W -s '|' -w 2000 -i /facts.sql > facts.txt
--
-- Before the second line wait until `docker logs sql` says "SQL Server Agent" or for half a minute. The images of
-- 2017 and 2019 may have /opt/mssql-tools/bin/sqlcmd, without -C. On Windows open this file in SSMS, results to text.
-- Attach facts.txt to an issue with the form "Facts of a SQL Server". It holds no data of yours.
--
-- The script creates the databases tailrace_facts and [tailrace.facts] and the login tailrace_least. It drops them at
-- its end. `tailrace facts --config FILE` runs the questions that are marked read-only at a source of yours.
SET NOCOUNT ON; SET QUOTED_IDENTIFIER ON;
SELECT 90 AS load_s, 390 AS quiet_s, 60 AS marks_s INTO #seconds;
GO
-- T0, read-only: Which server is it?
--   The answers below are of this version and edition.
SELECT 'T0' AS fact, @@VERSION AS version, CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(40)) AS product,
  CAST(SERVERPROPERTY('EngineEdition') AS int) AS engine, CAST(SERVERPROPERTY('IsHadrEnabled') AS int) AS hadr;
GO
CREATE DATABASE tailrace_facts;
GO
USE tailrace_facts;
CREATE LOGIN tailrace_least WITH PASSWORD = N'Facts-of-2026';
CREATE USER tailrace_least FOR LOGIN tailrace_least;
EXEC sys.sp_cdc_enable_db;
CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, u int NULL, m nvarchar(40) NULL, big varchar(max) NULL, old text NULL, flag bit NOT NULL);
CREATE UNIQUE INDEX u_of_t ON dbo.t (u) WHERE u IS NOT NULL;
CREATE TABLE dbo.c (id int NOT NULL PRIMARY KEY, m nvarchar(40) NULL, x varchar(20) COLLATE Cyrillic_General_CI_AS NULL);
BEGIN TRY EXEC (N'ALTER TABLE dbo.t ALTER COLUMN m ADD MASKED WITH (FUNCTION = ''default()'')'); END TRY
BEGIN CATCH SELECT 'T8' AS fact, ERROR_NUMBER() AS refused, 'no mask before enabling' AS text; END CATCH;
EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @supports_net_changes = 0;
GO
-- T1: What is the start of a capture instance that no scan has seen yet?
--   start_lsn and max_lsn NULL, min_lsn zero: the embedded server is right.
--   an LSN: nothing breaks; the embedded server's list of behaviours has to say so.
SELECT 'T1' AS fact, start_lsn, sys.fn_cdc_get_min_lsn('dbo_t') AS min_lsn, sys.fn_cdc_get_max_lsn() AS max_lsn FROM cdc.change_tables;
EXEC sys.sp_cdc_enable_table N'dbo', N'c', @role_name = NULL, @supports_net_changes = 0;
BEGIN TRY EXEC (N'ALTER TABLE dbo.c ALTER COLUMN m ADD MASKED WITH (FUNCTION = ''default()'')'); END TRY
BEGIN CATCH SELECT 'T8' AS fact, ERROR_NUMBER() AS refused, 'no mask after enabling' AS text; END CATCH;
GO
-- T2, read-only: Have the jobs' settings numbers in every column?
--   numbers: the publisher and tailrace doctor calculate with them.
--   NULL in maxtrans or maxscans: it stands for a default, and has to be read as one.
BEGIN TRY
  EXEC (N'SELECT ''T2'' AS fact, job_type, maxtrans, maxscans, pollinginterval, retention, threshold FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()');
END TRY
BEGIN CATCH SELECT 'T2' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- From here on the capture job reads the log each second.
EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1;
DECLARE @tries int = 0, @stopped bit = 0;
WHILE @stopped = 0 AND @tries < 30
BEGIN
  BEGIN TRY EXEC sys.sp_cdc_stop_job @job_type = N'capture'; SET @stopped = 1; END TRY
  BEGIN CATCH SET @tries += 1; WAITFOR DELAY '00:00:01'; END CATCH;
END;
SET @tries = 0;
WHILE @tries < 30
BEGIN
  BEGIN TRY EXEC sys.sp_cdc_start_job @job_type = N'capture'; SET @tries = 99; END TRY
  BEGIN CATCH SET @tries += 1; WAITFOR DELAY '00:00:01'; END CATCH;
END;
GO
GRANT SELECT ON SCHEMA::cdc TO tailrace_least;
GRANT SELECT ON dbo.t TO tailrace_least;
GRANT SELECT ON dbo.c TO tailrace_least;
GRANT VIEW DATABASE STATE TO tailrace_least;
INSERT dbo.t VALUES (1, 1, N'secret', 'large', 'old', 1), (2, 2, N'secret', 'large', 'old', 1), (3, 3, N'secret', 'large', 'old', 0);
INSERT dbo.c VALUES (1, N'secret', NCHAR(1087) + NCHAR(1088) + NCHAR(1080));
UPDATE dbo.t SET old = 'new' WHERE id = 1;
UPDATE dbo.t SET big = 'new' WHERE id = 1;
UPDATE dbo.t SET flag = 0 WHERE id = 1;
UPDATE dbo.t SET id = 11 WHERE id = 1;
UPDATE dbo.t SET u = u + 10 WHERE id IN (2, 3);
UPDATE dbo.t SET id = id, flag = 0 WHERE id = 2;
DELETE dbo.t WHERE id = 2;
DECLARE @tries int = 0;
WHILE @tries < 60 AND NOT EXISTS (SELECT 1 FROM cdc.dbo_t_CT WHERE [__$operation] = 1 AND id = 2)
BEGIN WAITFOR DELAY '00:00:01'; SET @tries += 1; END;
GO
-- T3: In which form are changes of keys and of large values captured?
--   id = 11: operations 1 and 2 with one seqval. The update of `old`: a value in operation 3. The product is right.
--   `old` NULL in operation 3 while its bit in the mask is on: the before image of text, ntext and image is unknown.
--   id = id with operations 3 and 4: the embedded server is wrong; the product takes both.
SELECT 'T3' AS fact, [__$start_lsn], [__$seqval], [__$operation], [__$command_id], [__$update_mask], id, u, big, CAST(old AS varchar(20)) AS old, flag
FROM cdc.dbo_t_CT ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation];
GO
-- T4: Is varchar with another collation than the database's captured right?
--   equal bytes: yes.
--   other bytes: such columns have wrong text in topics, and a first start has to warn.
SELECT 'T4' AS fact, CAST(ct.x AS varbinary(20)) AS captured, CAST(c.x AS varbinary(20)) AS at_source,
  (SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID(N'cdc.dbo_c_CT') AND name = N'x') AS captured_as
FROM cdc.dbo_c_CT AS ct JOIN dbo.c AS c ON c.id = ct.id;
GO
-- The rights of the publisher's login, with SELECT on schema cdc and VIEW DATABASE STATE.
EXECUTE AS LOGIN = N'tailrace_least';
GO
-- T5, read-only: Does VIEW DATABASE STATE show the end of the log?
--   a value: it is enough.
--   refused (300, 297): fences and known time need a right on the server.
BEGIN TRY SELECT 'T5' AS fact, log_end_lsn FROM sys.dm_db_log_stats(DB_ID()); END TRY
BEGIN CATCH SELECT 'T5' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T6, read-only: Does it show how full the log is?
--   a value: it is enough.
--   refused (300, 297): tailrace_log_full_seconds needs a right on the server.
BEGIN TRY EXEC (N'SELECT ''T6'' AS fact, used_log_space_in_percent FROM sys.dm_db_log_space_usage'); END TRY
BEGIN CATCH SELECT 'T6' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T7, read-only: Does it show the sessions of the capture job?
--   a number above 0: it is enough, and the Agent's job is who captures.
--   0: another reader captures, as the Log Reader Agent of a publication, or the server has just started.
--   refused (297): known time is not.
BEGIN TRY SELECT 'T7' AS fact, COUNT(*) AS sessions FROM sys.dm_cdc_log_scan_sessions; END TRY
BEGIN CATCH SELECT 'T7' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T8: Does a mask reach the change table?
--   secret, twice: it does not.
--   xxxx: the stream has masks in the place of values, silently, unless the login may UNMASK.
SELECT TOP (1) 'T8' AS fact, 'masked before enabling' AS column_was, m FROM cdc.dbo_t_CT WHERE id = 3;
SELECT TOP (1) 'T8' AS fact, 'masked after enabling' AS column_was, m FROM cdc.dbo_c_CT;
GO
-- T9, read-only: Does every login see its database's identity?
--   a row: restores and failovers are noticed by it.
--   no row: they are noticed by the last published commit only.
BEGIN TRY
  SELECT 'T9' AS fact, COUNT(*) AS identities, COUNT(family_guid) AS families, COUNT(recovery_fork_guid) AS forks FROM sys.database_recovery_status WHERE database_id = DB_ID();
END TRY
BEGIN CATCH SELECT 'T9' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
IF SUSER_SNAME() = N'tailrace_least' REVERT;
GO
-- T10, read-only: Which masked columns has the database, and in which schemas?
--   none in cdc: masks do not reach change tables here.
--   some in cdc: they do.
SELECT 'T10' AS fact, COUNT(*) AS masked, COUNT(CASE WHEN OBJECT_SCHEMA_NAME(object_id) = N'cdc' THEN 1 END) AS in_change_tables FROM sys.masked_columns;
GO
-- T11, read-only: How does the Agent show itself?
--   services or sessions above 0: tailrace doctor can see it there.
--   0: doctor cannot distinguish a stopped Agent from one that it must not see.
BEGIN TRY
  SELECT 'T11' AS fact, (SELECT COUNT(*) FROM sys.dm_server_services WHERE servicename LIKE N'SQL Server Agent%') AS services,
    (SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name LIKE N'SQLAgent%') AS sessions;
END TRY
BEGIN CATCH SELECT 'T11' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T12, read-only: Which clock do commit times have?
--   offset 0: UTC.
--   another: times repeat for an hour each autumn, if the zone has daylight saving.
SELECT 'T12' AS fact, DATEPART(tz, SYSDATETIMEOFFSET()) AS offset_minutes, DATEDIFF(minute, GETUTCDATE(), GETDATE()) AS local_minutes;
GO
-- READPAST where the session reads row versions.
ALTER DATABASE tailrace_facts SET ALLOW_SNAPSHOT_ISOLATION ON;
GO
-- T13: Does a SNAPSHOT session accept READPAST?
--   a row: yes.
--   refused (650): a row that is looked up again needs another hint, or READ COMMITTED.
BEGIN TRY EXEC (N'SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT ''T13'' AS fact, id FROM dbo.t WITH (READPAST) WHERE id = 11'); END TRY
BEGIN CATCH SELECT 'T13' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T14: Does it accept READPAST with READCOMMITTEDLOCK?
--   a row: yes.
--   refused (650): that connection needs READ COMMITTED.
BEGIN TRY EXEC (N'SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT ''T14'' AS fact, id FROM dbo.t WITH (READCOMMITTEDLOCK, READPAST) WHERE id = 11'); END TRY
BEGIN CATCH SELECT 'T14' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
GO
-- T15: May a SNAPSHOT session create and run a temporary procedure over a change table?
--   a count: yes.
--   refused (3952, 3964): long statements have to be sent as text there.
CREATE PROCEDURE #kept @first binary(10), @up_to binary(10) AS
SELECT 'T15' AS fact, COUNT(*) AS rows_seen FROM cdc.dbo_t_CT WHERE [__$start_lsn] >= @first AND [__$start_lsn] <= @up_to;
GO
EXEC #kept 0x00000000000000000000, 0xFFFFFFFFFFFFFFFFFFFF;
GO
-- T16: Is a session of the capture job over before its rows are committed?
--   early 0: no, so a finished session proves that its rows are there.
--   early above 0: it proves them only after the newest LSN has reached its last commit.
SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
DECLARE @end datetime2 = DATEADD(second, (SELECT load_s FROM #seconds), SYSDATETIME()), @next datetime2 = SYSDATETIME();
DECLARE @looks int = 0, @early int = 0, @id int = 1000, @done nvarchar(50), @hex varchar(20);
WHILE SYSDATETIME() < @end
BEGIN
  IF SYSDATETIME() >= @next
  BEGIN
    SET @id += 1;
    INSERT dbo.t (id, m, big, flag) VALUES (@id, N'load', REPLICATE('x', 8000), 1);
    SET @next = DATEADD(millisecond, 150, SYSDATETIME());
  END;
  SET @done = NULL;
  SELECT TOP (1) @done = LEFT(last_commit_cdc_lsn, 22) FROM sys.dm_cdc_log_scan_sessions
  WHERE session_id > 0 AND end_time IS NOT NULL AND tran_count > 0 ORDER BY session_id DESC;
  SELECT @hex = CONVERT(varchar(20), MAX(start_lsn), 2) FROM cdc.lsn_time_mapping;
  SET @looks += 1;
  IF UPPER(@done) > LEFT(@hex, 8) + ':' + SUBSTRING(@hex, 9, 8) + ':' + RIGHT(@hex, 4) SET @early += 1;
END;
SELECT 'T16' AS fact, @looks AS looks, @early AS early;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
GO
-- T17: Where does a session end that found nothing, and when does a time mark come?
--   end_lsn, without its last character, at or above the log_end of an earlier row: fences on a quiet database are quick.
--   zero, NULL or below it: each waits for the next mark, up to five minutes.
--   The second list has the marks: they come five minutes after the newest entry, at the log_end of their time.
CREATE TABLE #quiet (seen_at datetime2(3), log_end nvarchar(50), session_id int, start_time datetime, end_time datetime, tran_count int, empty int,
  start_lsn nvarchar(50), end_lsn nvarchar(50), last_commit nvarchar(50), max_lsn binary(10));
DECLARE @end datetime2 = DATEADD(second, (SELECT quiet_s FROM #seconds), SYSDATETIME());
WHILE SYSDATETIME() < @end
BEGIN
  INSERT #quiet SELECT SYSDATETIME(), (SELECT log_end_lsn FROM sys.dm_db_log_stats(DB_ID())), s.session_id, s.start_time, s.end_time,
    s.tran_count, s.empty_scan_count, s.start_lsn, s.end_lsn, s.last_commit_lsn, sys.fn_cdc_get_max_lsn()
  FROM (SELECT TOP (1) * FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0 ORDER BY session_id DESC) AS s;
  IF (SELECT quiet_s FROM #seconds) > 60 WAITFOR DELAY '00:00:15' ELSE WAITFOR DELAY '00:00:01';
END;
SELECT 'T17' AS fact, * FROM #quiet ORDER BY seen_at;
SELECT 'T17' AS fact, start_lsn, tran_begin_time, tran_end_time, tran_id, tran_begin_lsn FROM cdc.lsn_time_mapping WHERE tran_id = 0x00 ORDER BY start_lsn;
GO
-- T18: Can a commit be captured below a time mark that is there already?
--   no row T18 LATE while marks is above 0: no.
--   a row: a window that was closed at a mark may lose a transaction.
CREATE TABLE #seen (start_lsn binary(10) PRIMARY KEY, is_mark bit, seen int);
EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 0;
BEGIN TRY EXEC sys.sp_cdc_stop_job @job_type = N'capture'; END TRY BEGIN CATCH SELECT 'T18' AS fact, ERROR_NUMBER() AS refused, 'stop' AS text; END CATCH;
DECLARE @tries int = 0;
WHILE @tries < 30
BEGIN
  BEGIN TRY EXEC sys.sp_cdc_start_job @job_type = N'capture'; SET @tries = 99; END TRY
  BEGIN CATCH SET @tries += 1; WAITFOR DELAY '00:00:01'; END CATCH;
END;
DECLARE @end datetime2 = DATEADD(second, (SELECT marks_s FROM #seconds), SYSDATETIME()), @n int = 0;
WHILE SYSDATETIME() < @end
BEGIN
  SET @n += 1;
  UPDATE cdc.lsn_time_mapping SET tran_end_time = DATEADD(minute, -10, tran_end_time)
  WHERE start_lsn = (SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping) AND tran_end_time > DATEADD(minute, -6, GETDATE());
  IF RAND() < 0.02 INSERT dbo.t (id, m, flag) VALUES (1000000 + @n, N'mark', 1);
  INSERT #seen SELECT start_lsn, CASE WHEN tran_id = 0x00 THEN 1 ELSE 0 END, @n FROM cdc.lsn_time_mapping AS m
  WHERE NOT EXISTS (SELECT 1 FROM #seen AS s WHERE s.start_lsn = m.start_lsn);
  WAITFOR DELAY '00:00:00.002';
END;
SELECT 'T18' AS fact, SUM(CASE WHEN is_mark = 1 THEN 1 ELSE 0 END) AS marks, SUM(CASE WHEN is_mark = 0 THEN 1 ELSE 0 END) AS commits FROM #seen;
SELECT 'T18 LATE' AS fact, b.start_lsn AS late_commit, b.seen, a.start_lsn AS mark, a.seen AS mark_seen
FROM #seen AS a JOIN #seen AS b ON a.is_mark = 1 AND b.is_mark = 0 AND b.start_lsn < a.start_lsn AND b.seen > a.seen;
GO
-- T19: Is a NOT NULL column ever NULL in a deleted row?
--   null_flags 0: no.
--   above 0: before images have to be nullable.
DELETE dbo.t WHERE id > 1000;
DECLARE @tries int = 0;
WHILE @tries < 60 AND (SELECT COUNT(*) FROM cdc.dbo_t_CT WHERE [__$operation] = 1 AND id > 1000) < (SELECT COUNT(*) FROM cdc.dbo_t_CT WHERE [__$operation] = 2 AND id > 1000)
BEGIN WAITFOR DELAY '00:00:01'; SET @tries += 1; END;
SELECT 'T19' AS fact, COUNT(*) AS deletes, SUM(CASE WHEN flag IS NULL THEN 1 ELSE 0 END) AS null_flags FROM cdc.dbo_t_CT WHERE [__$operation] = 1;
GO
-- T20: Which numbers have the refusals?
--   4711, 4928, 22926, 22920: the product and the embedded server are right.
--   others: an error of the source is taken for another one.
BEGIN TRY EXEC (N'TRUNCATE TABLE dbo.t'); END TRY BEGIN CATCH SELECT 'T20' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
BEGIN TRY EXEC sp_rename N'dbo.t.m', N'm2', N'COLUMN'; END TRY BEGIN CATCH SELECT 'T20' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
BEGIN TRY EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @capture_instance = N'dbo_t'; END TRY BEGIN CATCH SELECT 'T20' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
BEGIN TRY EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'none', @low_water_mark = NULL; END TRY BEGIN CATCH SELECT 'T20' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
CREATE DATABASE [tailrace.facts];
GO
USE [tailrace.facts];
GO
-- T21, read-only: Is a database's name that needs brackets understood without them?
--   by_name as by_null: yes.
--   NULL in by_name: the name has to be left out, which means the current database.
SELECT 'T21' AS fact, HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'VIEW DATABASE STATE') AS by_name,
  HAS_PERMS_BY_NAME(NULL, N'DATABASE', N'VIEW DATABASE STATE') AS by_null;
GO
USE tailrace_facts;
GO
-- T22, read-only: Which types has the server that share their system type with another?
--   vector and json with a system type of their own, or absent: they can be distinguished.
--   vector with 165: it looks like varbinary.
SELECT 'T22' AS fact, name, system_type_id, user_type_id FROM sys.types WHERE name IN (N'vector', N'json', N'varbinary', N'geometry');
GO
-- T23: In which form are the types of SQL Server 2025 captured?
--   rows: this form. refused: sp_cdc_enable_table refuses them. Nothing: the server is too old.
IF EXISTS (SELECT 1 FROM sys.types WHERE name = N'vector')
BEGIN TRY
  EXEC (N'CREATE TABLE dbo.v (id int NOT NULL PRIMARY KEY, e vector(3) NULL, j json NULL)');
  EXEC sys.sp_cdc_enable_table N'dbo', N'v', @role_name = NULL;
  EXEC (N'INSERT dbo.v VALUES (1, ''[1,2,3]'', ''{"a":1}'')');
  WAITFOR DELAY '00:00:10';
  EXEC (N'SELECT ''T23'' AS fact, c.name, c.system_type_id, c.user_type_id, c.max_length FROM sys.columns AS c WHERE c.object_id IN (OBJECT_ID(N''dbo.v''), OBJECT_ID(N''cdc.dbo_v_CT''));
    SELECT ''T23'' AS fact, id, CAST(e AS nvarchar(max)) AS e, CAST(j AS nvarchar(max)) AS j FROM cdc.dbo_v_CT');
END TRY
BEGIN CATCH SELECT 'T23' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T24, read-only: Do DB_ID() and sys.databases agree, and where are the jobs' settings?
--   same_id 1: yes. 0, as in Azure SQL Database: the database has to be found by its name.
--   The second row is an error where the database has no view of the jobs of its own (208), as servers with msdb do not.
SELECT 'T24' AS fact, COUNT(*) AS same_id FROM sys.databases WHERE name = DB_NAME() AND database_id = DB_ID();
BEGIN TRY EXEC (N'SELECT ''T24'' AS fact, COUNT(*) AS jobs FROM cdc.cdc_jobs'); END TRY
BEGIN CATCH SELECT 'T24' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T25, read-only: Has the catalog another collation than the database?
--   a count: names of the catalog and of schema cdc can be compared.
--   refused (468): a comparison has to name the collation.
BEGIN TRY
  EXEC (N'SELECT ''T25'' AS fact, COUNT(*) AS named_alike FROM cdc.change_tables AS ct JOIN sys.indexes AS i ON i.name = ct.index_name AND i.object_id = ct.source_object_id');
END TRY
BEGIN CATCH SELECT 'T25' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
-- T26, read-only: What did the newest sessions of the capture job see?
--   end_lsn, without its last character, at or above log_end in rows without transactions: as in T17.
BEGIN TRY
  SELECT TOP (5) 'T26' AS fact, s.session_id, s.tran_count, s.empty_scan_count, s.error_count, s.start_lsn, s.end_lsn, s.last_commit_lsn,
    sys.fn_cdc_get_max_lsn() AS max_lsn, (SELECT MAX(tran_end_time) FROM cdc.lsn_time_mapping WHERE tran_id = 0x00) AS newest_mark
  FROM sys.dm_cdc_log_scan_sessions AS s ORDER BY s.session_id DESC;
END TRY
BEGIN CATCH SELECT 'T26' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
BEGIN TRY EXEC sys.sp_cdc_stop_job @job_type = N'capture'; END TRY BEGIN CATCH SELECT 'T27' AS fact, ERROR_NUMBER() AS refused, 'stop' AS text; END CATCH;
ALTER DATABASE tailrace_facts SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE;
GO
-- T27: Is READPAST accepted under READ_COMMITTED_SNAPSHOT?
--   a row: yes.
--   refused (650): READCOMMITTEDLOCK has to be given with it.
BEGIN TRY EXEC (N'SELECT ''T27'' AS fact, id FROM dbo.t WITH (READPAST) WHERE id = 11'); END TRY
BEGIN CATCH SELECT 'T27' AS fact, ERROR_NUMBER() AS refused, ERROR_MESSAGE() AS text; END CATCH;
GO
USE master;
GO
ALTER DATABASE tailrace_facts SET SINGLE_USER WITH ROLLBACK IMMEDIATE;
DROP DATABASE tailrace_facts;
DROP DATABASE [tailrace.facts];
DROP LOGIN tailrace_least;
SELECT 'END' AS fact, 'every question was asked' AS text;
GO
