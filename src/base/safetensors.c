/* A safetensors file on disk: open, read, widen; see safetensors.h. The header's grammar is in safetensors_parse.c. */
#include "base/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Opens a regular file and says how long it is. */
static lzt_status open_file(const lzt_os *os, const char *path, int *fd, uint64_t *bytes, lzt_error *err)
{
    struct stat info;
    *fd = os->openat(os, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0); /* O_NONBLOCK: a pipe must not hold us */
    if (*fd < 0) return lzt_fail_os(err, *fd == -ENOENT ? LZT_ERR_MODEL : LZT_ERR_STORAGE, -*fd, path, "cannot open");
    int code = os->fstat(os, *fd, &info);
    lzt_status status = LZT_OK;
    if (code < 0) status = lzt_fail_os(err, LZT_ERR_STORAGE, -code, path, "cannot stat");
    if (code >= 0 && !S_ISREG(info.st_mode)) status = lzt_fail(err, LZT_ERR_MODEL, path, "not a regular file");
    if (status) os->close(os, *fd);
    *bytes = status ? 0 : (uint64_t)info.st_size;
    return status;
}

static lzt_status read_header(const lzt_os *os, int fd, uint64_t file_bytes, const char *path, char **header,
                              uint64_t *bytes, lzt_error *err)
{
    unsigned char length[8];
    if (file_bytes < 8)
        return lzt_fail(err, LZT_ERR_MODEL, path, "%llu bytes are too few for a safetensors file",
                        (unsigned long long)file_bytes);
    lzt_status status = lzt__os_read_all(os, fd, path, length, 8, 0, err);
    if (status) return status;
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | length[i];
    if (n > LZT__ST_HEADER_MAX)
        return lzt_fail(err, LZT_ERR_MODEL, path, "byte 0: a header of %llu bytes, more than %llu",
                        (unsigned long long)n, (unsigned long long)LZT__ST_HEADER_MAX);
    if (n > file_bytes - 8)
        return lzt_fail(err, LZT_ERR_MODEL, path, "byte 0: a header of %llu bytes in a file of %llu: it is cut",
                        (unsigned long long)n, (unsigned long long)file_bytes);
    *header = malloc(n + 1);
    *bytes = n;
    if (!*header)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a header of %llu bytes", (unsigned long long)n);
    status = lzt__os_read_all(os, fd, path, *header, n, 8, err);
    if (status) free(*header);
    return status;
}

lzt_status lzt__st_open(const lzt_os *os, const char *path, lzt__st *st, lzt_error *err)
{
    memset(st, 0, sizeof *st);
    int fd;
    uint64_t file_bytes = 0, header_bytes = 0;
    char *header = NULL;
    lzt_status status = open_file(os, path, &fd, &file_bytes, err);
    if (status) return status;
    status = read_header(os, fd, file_bytes, path, &header, &header_bytes, err);
    os->close(os, fd);
    if (status) return status;
    status = lzt__st_parse(header, header_bytes, file_bytes - 8 - header_bytes, path, st, err);
    if (status) return status;
    st->os = os;
    st->data_offset = 8 + header_bytes;
    st->path = strdup(path);
    if (st->path) return LZT_OK;
    lzt__st_close(st);
    return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory");
}

lzt_status lzt__st_read(const lzt__st *st, const lzt__st_entry *entry, uint64_t offset, uint64_t bytes, void *out,
                        lzt_error *err)
{
    int fd;
    uint64_t file_bytes, opened_bytes = st->data_offset + st->data_bytes;
    lzt_status status = open_file(st->os, st->path, &fd, &file_bytes, err);
    if (status) return status;
    if (file_bytes != opened_bytes)
        status =
            lzt_fail(err, LZT_ERR_MODEL, st->path, "the file has changed since it was opened: %llu bytes, now %llu",
                     (unsigned long long)opened_bytes, (unsigned long long)file_bytes);
    if (!status)
        status = lzt__os_read_all(st->os, fd, st->path, out, bytes, st->data_offset + entry->begin + offset, err);
    st->os->close(st->os, fd);
    return status;
}

static float widen_f16(uint16_t half)
{
    union {
        uint32_t u;
        float f;
    } v;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) {
        v.u = sign | 0x7f800000u | fraction << 13;
    } else if (exponent) {
        v.u = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        v.f = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */
        v.u |= sign;
    }
    return v.f;
}

void lzt__st_to_f32(lzt_dtype dtype, const void *src, uint64_t count, float *out)
{
    const unsigned char *from = src;
    if (dtype == LZT_DTYPE_F32) {
        memmove(out, src, count * 4);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint16_t element;
        memcpy(&element, from + 2 * i, 2);
        out[i] = dtype == LZT_DTYPE_BF16 ? lzt_bf16_to_f32(element) : widen_f16(element);
    }
}
