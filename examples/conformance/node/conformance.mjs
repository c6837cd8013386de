// A subscriber by docs/contract.md: whole source transactions in commit order, and the state.
// npm ci, then: node conformance.mjs ..

import avro from "avsc";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";

const FRAME_BYTES = 5;

/** Longs as BigInt: LSNs fit into no number of JavaScript, nor does every bigint. */
const long = avro.types.LongType.__with({
  fromBuffer: (buffer) => buffer.readBigInt64LE(),
  toBuffer: (value) => {
    const buffer = Buffer.alloc(8);
    buffer.writeBigInt64LE(value);
    return buffer;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value) => typeof value === "bigint",
  compare: (a, b) => (a < b ? -1 : Number(a > b)),
});

/** Decimals as text: the unscaled bytes are a signed number, the most significant byte first. */
class Decimal extends avro.types.LogicalType {
  constructor(schema, options) {
    super(schema, options);
    this.scale = schema.scale ?? 0;
  }

  _fromValue(bytes) {
    const unscaled = BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString("hex") || "0"}`));
    const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(this.scale + 1, "0");
    const point = digits.length - this.scale;
    const fraction = this.scale ? `.${digits.slice(point)}` : "";
    return `${unscaled < 0n ? "-" : ""}${digits.slice(0, point)}${fraction}`;
  }
}

const typeOf = (schema) =>
  avro.Type.forSchema(schema, {
    typeHook: (of) => (of === "long" || of.type === "long" ? long : undefined),
    logicalTypes: { decimal: Decimal },
  });
const bytesOf = (text) => Buffer.from(text, "base64");
const read = (type, framed) => type.fromBuffer(framed.subarray(FRAME_BYTES));
const linesOf = (file) => readFileSync(file, "utf8").trimEnd().split("\n").map((l) => JSON.parse(l));

/** A value as the kit's files have it. */
function json(value) {
  if (typeof value === "bigint") return String(value);
  if (Buffer.isBuffer(value)) return value.toString("hex");
  if (Array.isArray(value)) return value.map(json);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, held]) => [name, json(held)]));
}

/** The order of all changes: as bytes, or as text with these digits. */
function positionOf(source) {
  const hex = (number, digits) => number.toString(16).padStart(digits, "0");
  const [lsn, seqval] = [source.commit_lsn, source.change_lsn].map((s) => s.replaceAll(":", ""));
  return lsn + hex(source.command_id, 8) + seqval + hex(source.operation, 2);
}

class Subscriber {
  #records = new Map();
  #progress = [];
  #types = new Map();
  #rows = new Map();
  #seen = new Map();
  #outside = [];

  constructor(folder) {
    const schemas = JSON.parse(readFileSync(join(folder, "schemas.json"), "utf8"));
    for (const [id, schema] of Object.entries(schemas)) this.#types.set(Number(id), typeOf(schema));
    for (const line of linesOf(join(folder, "records.jsonl"))) {
      if (line.topic.endsWith(".progress")) this.#progress.push(line);
      else this.#records.set(`${line.topic}/${line.partition}/${line.offset}`, line);
    }
    this.#progress.sort((a, b) => a.offset - b.offset);
  }

  /** What each closed LSN brings. */
  *groups() {
    let events = [];
    for (const line of this.#progress) {
      const record = this.#framed(bytesOf(line.value));
      for (const topic of record.snapshotting) {
        if (!this.#outside.includes(topic)) this.#seen.set(topic, new Set());
      }
      this.#outside = record.snapshotting;
      for (const entry of record.partitions) events.push(...this.#events(entry));
      if (!record.closed) continue;
      events.sort((a, b) => (a.position < b.position ? -1 : Number(a.position > b.position)));
      for (const event of events) this.#apply(event);
      this.#finishSnapshots();
      yield {
        closed_lsn: record.through_lsn,
        outside_the_cut: [...this.#outside],
        events: events.map(({ position, topic, value: { op, before, after, source } }) => {
          const { snapshot, changed, unavailable } = source;
          return json({ position, topic, op, before, after, snapshot, changed, unavailable });
        }),
      };
      events = [];
    }
  }

  /** Rows by id, without NULLs. */
  state() {
    const plain = (row) => Object.entries(row).filter(([, value]) => value !== null);
    const sorted = (rows) => [...rows.values()].sort((a, b) => a.id - b.id);
    return Object.fromEntries(
      [...this.#rows].map(([topic, rows]) => [
        topic,
        sorted(rows).map((row) => Object.fromEntries(plain(row))),
      ]),
    );
  }

  *#events({ topic, partition, first_offset: first, next_offset: next, count }) {
    let found = 0n;
    for (let offset = first; offset < next; offset++) {
      const record = this.#records.get(`${topic}/${partition}/${offset}`);
      if (record.value === null) continue; // a tombstone
      const key = bytesOf(record.key).toString("hex", FRAME_BYTES);
      const value = this.#framed(bytesOf(record.value));
      this.#seen.get(topic)?.add(key);
      found++;
      yield { position: positionOf(value.source), topic, key, value };
    }
    if (found !== count) throw new Error(`the ledger counts ${count} of ${topic}, found ${found}`);
  }

  #apply({ topic, key, value: { op, after, source } }) {
    if (!this.#rows.has(topic)) this.#rows.set(topic, new Map());
    const rows = this.#rows.get(topic);
    if (op === "d") {
      rows.delete(key);
      return;
    }
    const row = json(after);
    for (const name of source.unavailable) row[name] = rows.get(key)?.[name] ?? null;
    rows.set(key, row);
  }

  /** A snapshot that ended leaves only the rows that came since it began. */
  #finishSnapshots() {
    for (const [topic, keys] of this.#seen) {
      if (this.#outside.includes(topic)) continue;
      this.#seen.delete(topic);
      const rows = this.#rows.get(topic) ?? new Map();
      this.#rows.set(topic, new Map([...rows].filter(([key]) => keys.has(key))));
    }
  }

  #framed(bytes) {
    if (bytes[0] !== 0) throw new Error("not framed");
    return read(this.#types.get(bytes.readInt32BE(1)), bytes);
  }
}

function check(what, found, expected) {
  if (isDeepStrictEqual(found, expected)) return;
  const [is, wanted] = [found, expected].map((value) => JSON.stringify(value));
  console.error(`${what}\nfound    ${is}\nexpected ${wanted}`);
  process.exit(1);
}

const folder = process.argv[2];
const subscriber = new Subscriber(folder);
const groups = [...subscriber.groups()];
const expected = linesOf(join(folder, "expected_groups.jsonl"));
check("number of groups", groups.length, expected.length);
groups.forEach((group, index) => check(`group ${index + 1}`, group, expected[index]));
const rows = JSON.parse(readFileSync(join(folder, "expected_state.json"), "utf8"));
check("state", subscriber.state(), rows);
const values = linesOf(join(folder, "values.jsonl"));
for (const { sql_type: type, schema, value, expected: wanted } of values) {
  check(type, json(read(typeOf(schema), bytesOf(value)).after.v), wanted);
}
console.log(`${groups.length} groups, ${values.length} values`);
