/* What a compiled encoder would bring: insert events of blocks, by the same cells as the kernels.
   Built by bench/page_paths.py where a C compiler is found; no part of the publisher. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BIT, LONG, SINGLE, DOUBLE, NUMERIC, DATE, TIMESTAMP, GUID, TEXT, BYTES };

typedef struct {
    int32_t kind, required, width, pad;
    const uint8_t *cells;
    const int64_t *lengths;
} column;

static uint8_t *varint(uint8_t *out, int64_t value) {
    uint64_t rest = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (rest >= 0x80) { *out++ = (uint8_t)(rest | 0x80); rest >>= 7; }
    *out++ = (uint8_t)rest;
    return out;
}

static int64_t days(int64_t y, int64_t m, int64_t d) {
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static const char hex[] = "0123456789abcdef";

static uint8_t *text(uint8_t *out, const uint8_t *cell, int64_t length, int *bad) {
    const uint16_t *unit = (const uint16_t *)cell, *end = unit + length / 2;
    int64_t size = 0;
    for (const uint16_t *u = unit; u < end; u++)
        size += *u < 0x80 ? 1 : *u < 0x800 ? 2 : (*u & 0xf800) == 0xd800 ? 2 : 3;
    out = varint(out, size);
    for (; unit < end; unit++) {
        uint32_t c = *unit;
        if (c < 0x80) { *out++ = (uint8_t)c; continue; }
        if (c < 0x800) { *out++ = 0xc0 | c >> 6; *out++ = 0x80 | (c & 63); continue; }
        if ((c & 0xf800) == 0xd800) {
            if (c >= 0xdc00 || unit + 1 == end || (unit[1] & 0xfc00) != 0xdc00) { *bad = 1; return out; }
            c = 0x10000 + ((c & 0x3ff) << 10) + (*++unit & 0x3ff);
            *out++ = 0xf0 | c >> 18; *out++ = 0x80 | (c >> 12 & 63);
        } else *out++ = 0xe0 | c >> 12;
        *out++ = 0x80 | (c >> 6 & 63); *out++ = 0x80 | (c & 63);
    }
    return out;
}

static uint8_t *value(uint8_t *out, const column *c, int64_t row, int *bad) {
    const uint8_t *cell = c->cells + row * c->width;
    int64_t length = c->lengths[row];
    if (length < 0) { *bad |= c->required; *out++ = 0; return out; }
    if (!c->required) *out++ = 2;
    switch (c->kind) {
    case BIT: *out++ = *cell; return out;
    case LONG: { int64_t v; memcpy(&v, cell, 8); return varint(out, v); }
    case SINGLE: case DOUBLE: memcpy(out, cell, c->width); return out + c->width;
    case BYTES: out = varint(out, length); memcpy(out, cell, length); return out + length;
    case TEXT: return text(out, cell, length, bad);
    case DATE: case TIMESTAMP: {
        int16_t p[6]; uint32_t nanos;
        memcpy(p, cell, c->kind == DATE ? 6 : 12);
        int64_t day = days(p[0], p[1], p[2]);
        if (c->kind == DATE) return varint(out, day);
        memcpy(&nanos, cell + 12, 4);
        return varint(out, ((day * 24 + p[3]) * 60 + p[4]) * 60000000 + p[5] * 1000000LL + nanos / 1000);
    }
    case GUID: {
        static const int order[] = {3, 2, 1, 0, -1, 5, 4, -1, 7, 6, -1, 8, 9, -1, 10, 11, 12, 13, 14, 15};
        *out++ = 72;
        for (int i = 0; i < 20; i++) {
            if (order[i] < 0) { *out++ = '-'; continue; }
            *out++ = hex[cell[order[i]] >> 4]; *out++ = hex[cell[order[i]] & 15];
        }
        return out;
    }
    case NUMERIC: {
        __int128 v; memcpy(&v, cell + 3, 16);
        int bits = 0; for (__int128 r = v; r; r >>= 1) bits++;
        int n = (bits + 8) >> 3;
        if (!cell[2]) v = -v;
        *out++ = (uint8_t)(n << 1);
        for (int i = n - 1; i >= 0; i--) *out++ = (uint8_t)(v >> (8 * i));
        return out;
    }
    }
    *bad = 1;
    return out;
}

static uint8_t *lsn(uint8_t *out, const uint8_t *raw) {
    for (int i = 0; i < 10; i++) {
        if (i == 4 || i == 8) *out++ = ':';
        *out++ = hex[raw[i] >> 4]; *out++ = hex[raw[i] & 15];
    }
    return out;
}

static uint8_t *put(uint8_t *out, const uint8_t *part, int64_t size) {
    memcpy(out, part, size);
    return out + size;
}

/* columns[0..4] are commit LSN, command id, seqval, operation, mask. parts: head, before commit_ms,
   before seqval, before commit LSN, serial, suffix. Returns bytes written, -1 for what is declined. */
int64_t encode_inserts(const column *columns, int32_t count, int64_t rows, int32_t key,
                       const int64_t *commit_ms, const uint8_t **parts, const int64_t *sizes,
                       uint8_t *out, int64_t *ends, uint8_t *keys, int64_t *key_ends,
                       const uint8_t *key_frame, const uint8_t *end, int64_t end_size) {
    uint8_t *at = out, *key_at = keys;
    int bad = 0;
    for (int64_t row = 0; row < rows; row++) {
        at = put(at, parts[0], sizes[0]);
        for (int32_t i = 5; i < count; i++) at = value(at, columns + i, row, &bad);
        at = put(at, parts[1], sizes[1]);
        at = varint(at, commit_ms[row]);
        at = put(at, parts[2], sizes[2]);
        at = lsn(at, columns[2].cells + row * 10);
        at = put(at, parts[3], sizes[3]);
        at = lsn(at, columns[0].cells + row * 10);
        at = put(at, parts[4], sizes[4]);
        at = varint(at, ((const int64_t *)columns[1].cells)[row]);
        at = put(at, parts[5], sizes[5]);
        at = put(at, end, end_size);
        ends[row] = at - out;
        key_at = put(key_at, key_frame, 5);
        key_at = value(key_at, columns + 5 + key, row, &bad);
        key_ends[row] = key_at - keys;
        if (bad) return -1;
    }
    return at - out;
}
