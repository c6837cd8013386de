import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;

/** A subscriber by docs/contract.md: whole source transactions in commit order, and the state. */
public class Conformance {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    record Event(String position, String topic, String key, GenericRecord value) {}

    final Map<String, JsonNode> records = new HashMap<>();
    final TreeMap<Long, JsonNode> progress = new TreeMap<>();
    final Map<Integer, Schema> schemas = new HashMap<>();
    final Map<String, Map<String, ObjectNode>> state = new TreeMap<>();
    final Map<String, Set<String>> seen = new HashMap<>();
    List<String> outside = List.of();

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[0]);
        Conformance subscriber = new Conformance(folder);
        List<JsonNode> groups = subscriber.groups();
        List<JsonNode> expected = lines(folder.resolve("expected_groups.jsonl"));
        check("number of groups", JSON.getNodeFactory().numberNode(groups.size()),
            JSON.getNodeFactory().numberNode(expected.size()));
        for (int i = 0; i < groups.size(); i++) {
            check("group " + (i + 1), groups.get(i), expected.get(i));
        }
        JsonNode rows = JSON.readTree(folder.resolve("expected_state.json").toFile());
        check("state", subscriber.state(), rows);
        int values = 0;
        for (JsonNode line : lines(folder.resolve("values.jsonl"))) {
            Schema schema = new Schema.Parser().parse(line.get("schema").toString());
            GenericRecord event = read(schema, bytes(line.get("value")));
            GenericRecord after = (GenericRecord) event.get("after");
            check(line.get("sql_type").asText(),
                json(after.getSchema().getField("v").schema(), after.get("v")),
                line.get("expected"));
            values++;
        }
        System.out.println(groups.size() + " groups, " + values + " values");
    }

    Conformance(Path folder) throws IOException {
        JSON.readTree(folder.resolve("schemas.json").toFile()).fields().forEachRemaining(
            entry -> schemas.put(Integer.valueOf(entry.getKey()),
                new Schema.Parser().parse(entry.getValue().toString())));
        for (JsonNode line : lines(folder.resolve("records.jsonl"))) {
            String topic = line.get("topic").asText();
            long offset = line.get("offset").asLong();
            if (topic.endsWith(".progress")) {
                progress.put(offset, line);
            } else {
                records.put(topic + "/" + line.get("partition").asInt() + "/" + offset, line);
            }
        }
    }

    /** What each closed LSN brings. */
    List<JsonNode> groups() throws IOException {
        List<JsonNode> groups = new ArrayList<>();
        List<Event> events = new ArrayList<>();
        for (JsonNode line : progress.values()) {
            GenericRecord record = framed(bytes(line.get("value")));
            List<String> named = new ArrayList<>();
            for (Object topic : (List<?>) record.get("snapshotting")) {
                named.add(topic.toString());
                if (!outside.contains(topic.toString())) {
                    seen.put(topic.toString(), new HashSet<>());
                }
            }
            outside = named;
            for (Object entry : (List<?>) record.get("partitions")) {
                take((GenericRecord) entry, events);
            }
            if (!(Boolean) record.get("closed")) {
                continue;
            }
            events.sort(Comparator.comparing(Event::position));
            ObjectNode group = JSON.createObjectNode();
            group.put("closed_lsn", record.get("through_lsn").toString());
            ArrayNode left = group.putArray("outside_the_cut");
            named.forEach(left::add);
            ArrayNode shown = group.putArray("events");
            for (Event event : events) {
                apply(event);
                shown.add(shown(event));
            }
            for (String topic : List.copyOf(seen.keySet())) {
                if (!named.contains(topic)) {
                    Set<String> keys = seen.remove(topic);
                    state.computeIfAbsent(topic, t -> new HashMap<>()).keySet().retainAll(keys);
                }
            }
            groups.add(group);
            events.clear();
        }
        return groups;
    }

    void take(GenericRecord entry, List<Event> events) throws IOException {
        String topic = entry.get("topic").toString();
        long count = 0;
        for (long at = (Long) entry.get("first_offset"); at < (Long) entry.get("next_offset"); at++) {
            JsonNode line = records.get(topic + "/" + entry.get("partition") + "/" + at);
            if (line.get("value").isNull()) {
                continue; // a tombstone
            }
            byte[] key = bytes(line.get("key"));
            String without = HEX.formatHex(key, 5, key.length);
            GenericRecord event = framed(bytes(line.get("value")));
            if (seen.containsKey(topic)) {
                seen.get(topic).add(without);
            }
            events.add(new Event(position((GenericRecord) event.get("source")), topic, without, event));
            count++;
        }
        if (count != (Long) entry.get("count")) {
            throw new AssertionError("the ledger counts " + entry.get("count") + ", found " + count);
        }
    }

    void apply(Event event) {
        Map<String, ObjectNode> rows = state.computeIfAbsent(event.topic, topic -> new HashMap<>());
        if (event.value.get("op").toString().equals("d")) {
            rows.remove(event.key);
            return;
        }
        GenericRecord after = (GenericRecord) event.value.get("after");
        ObjectNode row = (ObjectNode) json(after.getSchema(), after);
        ObjectNode before = rows.getOrDefault(event.key, JSON.createObjectNode());
        GenericRecord source = (GenericRecord) event.value.get("source");
        for (Object name : (List<?>) source.get("unavailable")) {
            row.set(name.toString(), before.get(name.toString()));
        }
        rows.put(event.key, row);
    }

    /** Rows by id, without NULLs. */
    JsonNode state() {
        ObjectNode found = JSON.createObjectNode();
        state.forEach((topic, rows) -> {
            ArrayNode array = found.putArray(topic);
            rows.values().stream().sorted(Comparator.comparing(row -> row.get("id").asInt()))
                .forEach(row -> {
                    ObjectNode held = array.addObject();
                    row.fields().forEachRemaining(field -> {
                        if (field.getValue() != null && !field.getValue().isNull()) {
                            held.set(field.getKey(), field.getValue());
                        }
                    });
                });
        });
        return found;
    }

    static ObjectNode shown(Event event) {
        ObjectNode shown = JSON.createObjectNode();
        shown.put("position", event.position).put("topic", event.topic);
        Schema schema = event.value.getSchema();
        for (String name : List.of("op", "before", "after")) {
            shown.set(name, json(schema.getField(name).schema(), event.value.get(name)));
        }
        GenericRecord source = (GenericRecord) event.value.get("source");
        for (String name : List.of("snapshot", "changed", "unavailable")) {
            shown.set(name, json(source.getSchema().getField(name).schema(), source.get(name)));
        }
        return shown;
    }

    static String position(GenericRecord source) {
        return source.get("commit_lsn").toString().replace(":", "")
            + String.format("%08x", (Integer) source.get("command_id"))
            + source.get("change_lsn").toString().replace(":", "")
            + String.format("%02x", (Integer) source.get("operation"));
    }

    static JsonNode json(Schema schema, Object value) {
        if (schema.getType() == Schema.Type.UNION) {
            return value == null ? JSON.nullNode() : json(schema.getTypes().get(1), value);
        }
        switch (schema.getType()) {
            case RECORD:
                ObjectNode row = JSON.createObjectNode();
                for (Schema.Field field : schema.getFields()) {
                    row.set(field.name(), json(field.schema(), ((GenericRecord) value).get(field.pos())));
                }
                return row;
            case ARRAY:
                ArrayNode array = JSON.createArrayNode();
                ((List<?>) value).forEach(one -> array.add(json(schema.getElementType(), one)));
                return array;
            case BYTES:
                byte[] raw = new byte[((ByteBuffer) value).remaining()];
                ((ByteBuffer) value).duplicate().get(raw);
                if (schema.getLogicalType() instanceof LogicalTypes.Decimal decimal) {
                    String digits = new BigDecimal(new BigInteger(raw), decimal.getScale()).toPlainString();
                    return JSON.getNodeFactory().textNode(digits);
                }
                return JSON.getNodeFactory().textNode(HEX.formatHex(raw));
            case BOOLEAN:
                return JSON.getNodeFactory().booleanNode((Boolean) value);
            case INT:
                return JSON.getNodeFactory().numberNode((Integer) value);
            case FLOAT:
            case DOUBLE:
                return JSON.getNodeFactory().numberNode(((Number) value).doubleValue());
            default:
                return JSON.getNodeFactory().textNode(value.toString());
        }
    }

    GenericRecord framed(byte[] raw) throws IOException {
        ByteBuffer frame = ByteBuffer.wrap(raw);
        if (frame.get() != 0) {
            throw new AssertionError("not framed");
        }
        return read(schemas.get(frame.getInt()), raw);
    }

    static GenericRecord read(Schema schema, byte[] raw) throws IOException {
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
        return reader.read(null, DecoderFactory.get().binaryDecoder(raw, 5, raw.length - 5, null));
    }

    static byte[] bytes(JsonNode text) {
        return Base64.getDecoder().decode(text.asText());
    }

    static List<JsonNode> lines(Path file) throws IOException {
        List<JsonNode> found = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            found.add(JSON.readTree(line));
        }
        return found;
    }

    static void check(String what, JsonNode found, JsonNode expected) {
        if (!found.equals(expected)) {
            System.err.println(what + "\nfound    " + found + "\nexpected " + expected);
            System.exit(1);
        }
    }
}
