/* TensorBoard's event file: see event_file.h. */
#include "report/event_file.h"

#include <stdbool.h>
#include <string.h>

uint32_t lzt__crc32c(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (UINT32_C(0x82f63b78) & (0u - (crc & 1)));
    }
    return ~crc;
}

uint32_t lzt__crc32c_masked(const void *data, size_t bytes)
{
    uint32_t crc = lzt__crc32c(data, bytes);
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

/* Bytes appended to a buffer of fixed size; full stays set once something did not fit. */
typedef struct writer {
    uint8_t *out;
    size_t size, used;
    bool full;
} writer;

static void put(writer *w, const void *data, size_t bytes)
{
    if (w->full || bytes > w->size - w->used) {
        w->full = true;
        return;
    }
    memcpy(w->out + w->used, data, bytes);
    w->used += bytes;
}

static void put_varint(writer *w, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) put(w, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    put(w, &(uint8_t){(uint8_t)value}, 1);
}

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static void put_tag(writer *w, uint32_t field, uint32_t wire)
{
    put_varint(w, field << 3 | wire);
}

static void put_bytes(writer *w, uint32_t field, const void *data, size_t bytes)
{
    put_tag(w, field, WIRE_BYTES);
    put_varint(w, bytes);
    put(w, data, bytes);
}

/* The record's head is written last: its place is left open, and the payload follows. */
enum { HEAD_BYTES = 12, TAIL_BYTES = 4 };

static writer begin(uint8_t *out, size_t size, double wall_seconds, uint64_t step)
{
    writer w = {.out = out, .size = size};
    put(&w, (uint8_t[HEAD_BYTES]){0}, HEAD_BYTES);
    put_tag(&w, 1, WIRE_FIXED64);
    put(&w, &wall_seconds, sizeof wall_seconds);
    put_tag(&w, 2, WIRE_VARINT);
    put_varint(&w, step);
    return w;
}

static size_t end(writer *w)
{
    if (w->full || w->size - w->used < TAIL_BYTES) return 0;
    uint64_t length = w->used - HEAD_BYTES;
    uint32_t crc = lzt__crc32c_masked(w->out + HEAD_BYTES, length);
    put(w, &crc, sizeof crc);
    memcpy(w->out, &length, sizeof length);
    crc = lzt__crc32c_masked(w->out, sizeof length);
    memcpy(w->out + sizeof length, &crc, sizeof crc);
    return w->used;
}

size_t lzt__event_version(double wall_seconds, uint8_t *out, size_t size)
{
    static const char version[] = "brain.Event:2";
    writer w = begin(out, size, wall_seconds, 0);
    put_bytes(&w, 3, version, sizeof version - 1);
    return end(&w);
}

size_t lzt__event_restart(double wall_seconds, uint64_t step, uint8_t *out, size_t size)
{
    static const uint8_t session_start[] = {1 << 3 | WIRE_VARINT, 1}; /* SessionLog.status = START */
    writer w = begin(out, size, wall_seconds, step);
    put_bytes(&w, 7, session_start, sizeof session_start);
    return end(&w);
}

size_t lzt__event_scalars(double wall_seconds, uint64_t step, const lzt_event_scalar *scalar, size_t scalar_count,
                          uint8_t *out, size_t size)
{
    uint8_t summary_bytes[2048];
    writer w = begin(out, size, wall_seconds, step), summary = {.out = summary_bytes, .size = sizeof summary_bytes};
    for (size_t i = 0; i < scalar_count; i++) {
        uint8_t value_bytes[256];
        writer value = {.out = value_bytes, .size = sizeof value_bytes};
        float number = (float)scalar[i].value;
        put_bytes(&value, 1, scalar[i].tag, strlen(scalar[i].tag));
        put_tag(&value, 2, WIRE_FIXED32);
        put(&value, &number, sizeof number);
        put_bytes(&summary, 1, value_bytes, value.used);
        summary.full |= value.full;
    }
    put_bytes(&w, 5, summary_bytes, summary.used);
    w.full |= summary.full;
    return end(&w);
}
