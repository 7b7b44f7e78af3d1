/* TensorBoard's event file, written by hand: TFRecords of Event messages (no protobuf library).
 *
 *     record = u64 length, u32 masked crc32c(length), payload, u32 masked crc32c(payload); little-endian
 *     mask   = rotate right by 15, plus 0xa282ead8
 *     Event  = 1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
 *     Summary.Value = 1 tag string, 2 simple_value float
 *
 * Source: the TFRecord format and event.proto, summary.proto of the TensorFlow documentation.
 * Threads: one user at a time. Everything is encoded into the caller's buffer; nothing is allocated.
 */
#ifndef LZT_REPORT_EVENT_FILE_H
#define LZT_REPORT_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct lzt_event_scalar {
    const char *tag; /* "train/loss" */
    double value;
} lzt_event_scalar;

/* CRC-32C (Castagnoli) of bytes; of "123456789": 0xe3069283. */
uint32_t lzt__crc32c(const void *data, size_t bytes);
uint32_t lzt__crc32c_masked(const void *data, size_t bytes);

/* One record each; return its bytes, or 0 when size is too small. wall_seconds: since the epoch. */
size_t lzt__event_version(double wall_seconds, uint8_t *out, size_t size);
/* Tells TensorBoard that a run begins again: points at this step and after are superseded. */
size_t lzt__event_restart(double wall_seconds, uint64_t step, uint8_t *out, size_t size);
size_t lzt__event_scalars(double wall_seconds, uint64_t step, const lzt_event_scalar *scalar, size_t scalar_count,
                          uint8_t *out, size_t size);

#endif
