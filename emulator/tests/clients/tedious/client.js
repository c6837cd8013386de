// Exercises tedious against the server named by the environment and prints what it saw as JSON: one
// member for each check, which the test compares. An error of the server is its number and text.
'use strict';

const fs = require('fs');
const { Connection, Request, TYPES, ISOLATION_LEVEL } = require('tedious');

const table = process.env.TABLE;

function settings(options, password) {
  return {
    server: '127.0.0.1',
    authentication: {
      type: 'default',
      options: { userName: process.env.USER_NAME, password: password ?? process.env.PASSWORD },
    },
    options: {
      port: Number(process.env.PORT),
      database: process.env.DATABASE,
      encrypt: false,
      trustServerCertificate: true,
      rowCollectionOnRequestCompletion: true,
      connectTimeout: 20000,
      useUTC: true,
      ...options,
    },
  };
}

function connect(options, password) {
  return new Promise((resolve, reject) => {
    const connection = new Connection(settings(options, password));
    connection.connect((error) => (error ? reject(error) : resolve(connection)));
  });
}

function told(error) {
  const cause = error.cause ?? error;
  return error.number === undefined
    ? { error: cause.message, code: error.code }
    : { number: error.number, text: error.message, class: error.class };
}

function execute(connection, sql, parameters = [], how = 'execSql', prepare = () => {}) {
  return new Promise((resolve, reject) => {
    const outputs = {};
    let status;
    const request = new Request(sql, (error, count, rows) => {
      if (error) {
        reject(error);
      } else {
        const values = rows.map((row) => row.map((column) => shown(column.value)));
        resolve({ rows: values, count, outputs, status });
      }
    });
    request.on('returnValue', (name, value) => { outputs[name] = shown(value); });
    request.on('doneProc', (count, more, returned) => { status = returned; });
    for (const [name, type, value, options] of parameters) {
      if (options?.output) {
        request.addOutputParameter(name, type, value);
      } else {
        request.addParameter(name, type, value, options);
      }
    }
    prepare(request);
    connection[how](request);
  });
}

function shown(value) {
  if (Buffer.isBuffer(value)) {
    return value.toString('hex');
  }
  return value instanceof Date ? value.toISOString() : value;
}

async function attempt(what) {
  try {
    return await what();
  } catch (error) {
    return told(error);
  }
}

async function login(options, password) {
  return attempt(async () => {
    const connection = await connect(options, password);
    const result = await execute(connection, 'SELECT DB_NAME(), SUSER_SNAME()');
    connection.close();
    return result.rows[0];
  });
}

async function roundTrip(connection) {
  const values = [
    ['bit', TYPES.Bit, true],
    ['tinyint', TYPES.TinyInt, 255],
    ['int', TYPES.Int, -2147483648],
    ['bigint', TYPES.BigInt, '-9223372036854775808'],
    ['real', TYPES.Real, 1.5],
    ['float', TYPES.Float, -2.25e300],
    ['decimal(9,4)', TYPES.Decimal, 12345.6789, { precision: 9, scale: 4 }],
    ['varchar(20)', TYPES.VarChar, 'Grüße'],
    ['nvarchar(20)', TYPES.NVarChar, '日本 🎉'],
    ['nvarchar(20)', TYPES.NVarChar, ''],
    ['nvarchar(max)', TYPES.NVarChar, '日'.repeat(5000)],
    ['varbinary(20)', TYPES.VarBinary, Buffer.from([0, 1, 255])],
    ['date', TYPES.Date, new Date('9999-12-31T00:00:00Z')],
    ['datetime', TYPES.DateTime, new Date('2026-01-02T03:04:05.120Z')],
    ['datetime2(3)', TYPES.DateTime2, new Date('9999-12-31T23:59:59.999Z'), { scale: 3 }],
    ['datetimeoffset(3)', TYPES.DateTimeOffset, new Date('2026-01-02T03:04:05.123Z'), { scale: 3 }],
    ['uniqueidentifier', TYPES.UniqueIdentifier, '6F9619FF-8B86-D011-B42D-00C04FC964FF'],
    ['nvarchar(5)', TYPES.NVarChar, null],
  ];
  const result = {};
  for (const [index, [declared, type, value, options]] of values.entries()) {
    const name = `${String(index).padStart(2, '0')} ${declared}`;
    const sql = `DECLARE @t TABLE (v ${declared}); INSERT INTO @t VALUES (@v); SELECT v FROM @t`;
    result[name] = await attempt(async () =>
      (await execute(connection, sql, [['v', type, value, options]])).rows[0][0]);
  }
  return result;
}

function begin(connection) {
  return new Promise((resolve, reject) => connection.beginTransaction(
    (error) => (error ? reject(error) : resolve()), '', ISOLATION_LEVEL.READ_COMMITTED));
}

function end(connection, how) {
  return new Promise((resolve, reject) =>
    connection[how]((error) => (error ? reject(error) : resolve())));
}

async function transaction(connection) {
  for (const [id, how] of [[1, 'rollbackTransaction'], [2, 'commitTransaction']]) {
    await begin(connection);
    await execute(connection, `INSERT INTO ${table} (id) VALUES (@id)`, [['id', TYPES.Int, id]]);
    await end(connection, how);
  }
  return (await execute(connection, `SELECT id FROM ${table}`)).rows;
}

async function prepared(connection) {
  const found = [];
  const done = { next: () => {} };
  const request = new Request('SELECT @a + 1', (error, count, rows) => done.next(error, rows));
  request.addParameter('a', TYPES.Int);
  await new Promise((resolve, reject) => {
    request.on('prepared', resolve);
    request.on('error', reject);
    connection.prepare(request);
  });
  for (let a = 0; a < 3; a += 1) {
    found.push(await new Promise((resolve, reject) => {
      done.next = (error, rows) => (error ? reject(error) : resolve(rows[0][0].value));
      connection.execute(request, { a });
    }));
  }
  await new Promise((resolve) => {
    done.next = resolve;
    connection.unprepare(request);
  });
  return found;
}

async function timeout(connection) {
  const failed = await attempt(() => execute(
    connection, "WAITFOR DELAY '00:01:00'", [], 'execSql', (request) => request.setTimeout(300)));
  return [failed.code, (await execute(connection, 'SELECT 1')).rows];
}

async function procedure(connection) {
  await execute(connection, `CREATE PROCEDURE dbo.p_${table} @a int, @b int OUTPUT AS`
    + ' SET @b = @a * 2; RETURN 3', [], 'execSqlBatch');
  const { outputs, status } = await execute(connection, `dbo.p_${table}`,
    [['a', TYPES.Int, 21], ['b', TYPES.Int, null, { output: true }]], 'callProcedure');
  return [outputs, status];
}

async function bulk(connection) {
  const name = `${table}_bulk`;
  await execute(connection, `CREATE TABLE ${name} (id int PRIMARY KEY, name nvarchar(20))`);
  const loaded = await new Promise((resolve, reject) => {
    const load = connection.newBulkLoad(name, (error, count) => (error ? reject(error) : resolve(count)));
    load.addColumn('id', TYPES.Int, { nullable: false });
    load.addColumn('name', TYPES.NVarChar, { length: 20, nullable: true });
    connection.execBulkLoad(load, Array.from({ length: 100 }, (_, id) => ({ id, name: `n${id}` })));
  });
  const { rows } = await execute(connection, `SELECT COUNT(*), MAX(name) FROM ${name}`);
  return [loaded, rows];
}

async function main() {
  const certificate = fs.readFileSync(process.env.CERTIFICATE, 'utf8');
  const connection = await connect({});
  await execute(connection, `CREATE TABLE ${table} (id int PRIMARY KEY)`);
  const twice = `INSERT INTO ${table} VALUES (7); INSERT INTO ${table} VALUES (7)`;
  const cdc = 'SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked('
    + "sys.fn_cdc_get_min_lsn(@instance), sys.fn_cdc_get_max_lsn(), N'all')";
  const report = {
    'login off': await login({}),
    'login on': await login({ encrypt: true }),
    'login strict': await login({
      encrypt: 'strict',
      trustServerCertificate: false,
      serverName: 'localhost',
      cryptoCredentialsDetails: { ca: certificate },
    }),
    'login wrong': await login({}, 'wrong'),
    'round trip': await roundTrip(connection),
    prepared: await attempt(() => prepared(connection)),
    duplicate: await attempt(() => execute(connection, twice)),
    missing: await attempt(() => execute(connection, 'SELECT * FROM dbo.nowhere')),
    removed: await attempt(async () =>
      (await execute(connection, `DELETE FROM ${table}`)).count),
    transaction: await attempt(() => transaction(connection)),
    timeout: await attempt(() => timeout(connection)),
    procedure: await attempt(() => procedure(connection)),
    bulk: await attempt(() => bulk(connection)),
    cdc: await attempt(async () =>
      (await execute(connection, cdc, [['instance', TYPES.NVarChar, 'dbo_Tracked']])).rows),
  };
  connection.close();
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
