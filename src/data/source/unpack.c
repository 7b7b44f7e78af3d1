/* .gz and .zst: see unpack.h. */
#include "data/source/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define IN_BYTES  (1 << 17)
#define OUT_BYTES (1 << 18)

typedef struct pump {
    const char *path;
    int in, out;
    char *from, *to; /* [IN_BYTES], [OUT_BYTES] */
    lzt_error *err;
} pump;

bool lzt__name_ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcasecmp(path + n - m, end);
}

bool lzt__unpack_is_packed(const char *path)
{
    return lzt__name_ends_with(path, ".gz") || lzt__name_ends_with(path, ".zst");
}

static lzt_status broken(const pump *p)
{
    return lzt_fail(p->err, LZT_ERR_DATA, p->path, "the compressed file is broken or cut");
}

static lzt_status fill(const pump *p, size_t *n)
{
    ssize_t r;
    do r = read(p->in, p->from, IN_BYTES);
    while (r < 0 && errno == EINTR);
    *n = r > 0 ? (size_t)r : 0;
    return r < 0 ? lzt_fail_os(p->err, LZT_ERR_STORAGE, errno, p->path, "cannot read the file") : LZT_OK;
}

static lzt_status drain(const pump *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = write(p->out, p->to + done, n - done);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0)
            return lzt_fail_os(p->err, LZT_ERR_STORAGE, errno, p->path, "cannot write the unpacked file (set TMPDIR)");
        done += (size_t)w;
    }
    return LZT_OK;
}

static lzt_status unpack_zstd(const pump *p)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->path, "no memory to unpack");
    lzt_status s = LZT_OK;
    size_t n = 0, state = 0;
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 31); /* what zstd --long=31 wrote is not broken */
    while (!s && !(s = fill(p, &n)) && n) {
        ZSTD_inBuffer in = {p->from, n, 0};
        while (!s && in.pos < in.size) {
            ZSTD_outBuffer out = {p->to, OUT_BYTES, 0};
            state = ZSTD_decompressStream(z, &out, &in);
            s = ZSTD_isError(state) ? broken(p) : drain(p, out.pos);
            while (!s && state && out.pos == out.size) { /* more lies ready than the buffer took */
                out.pos = 0;
                state = ZSTD_decompressStream(z, &out, &in);
                s = ZSTD_isError(state) ? broken(p) : drain(p, out.pos);
            }
        }
    }
    ZSTD_freeDStream(z);
    return s ? s : state ? broken(p) : LZT_OK;
}

static lzt_status unpack_gzip(const pump *p)
{
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, p->path, "no memory to unpack");
    lzt_status s = LZT_OK;
    size_t n = 0;
    int state = Z_STREAM_END;
    while (!s && !(s = fill(p, &n)) && n) {
        z.next_in = (Bytef *)p->from;
        z.avail_in = (uInt)n;
        do {
            if (state == Z_STREAM_END && z.total_in) inflateReset(&z); /* members follow one another */
            z.next_out = (Bytef *)p->to;
            z.avail_out = OUT_BYTES;
            state = inflate(&z, Z_NO_FLUSH);
            if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) s = broken(p);
            if (!s) s = drain(p, OUT_BYTES - z.avail_out);
        } while (!s && (z.avail_in || !z.avail_out));
    }
    inflateEnd(&z);
    return s ? s : state != Z_STREAM_END ? broken(p) : LZT_OK;
}

lzt_status lzt__unpack(const char *path, int packed, int *unpacked, lzt_error *err)
{
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    char name[4096];
    snprintf(name, sizeof name, "%s/lazytrain-XXXXXX", folder);
    *unpacked = mkostemp(name, O_CLOEXEC);
    if (*unpacked < 0)
        return lzt_fail_os(err, LZT_ERR_STORAGE, errno, folder, "cannot make a temporary file (set TMPDIR)");
    unlink(name);
    pump p = {path, packed, *unpacked, malloc(IN_BYTES), malloc(OUT_BYTES), err};
    lzt_status s = p.from && p.to ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory to unpack");
    if (!s) s = lzt__name_ends_with(path, ".zst") ? unpack_zstd(&p) : unpack_gzip(&p);
    free(p.from);
    free(p.to);
    if (s) close(*unpacked);
    return s;
}
