/* Packing and block kernels of the matrix product: see gemm_isa.h. Compiled once per instruction set.
 *
 * The tile is MR x NR, NR two vectors: MR * 2 sums, 2 vectors of B and a broadcast of A fill the registers (16 of SSE
 * and AVX2, 32 of AVX-512). Elements are summed over k one after the other by fused multiply-add (by multiply and add
 * on x86-64-v2), whatever the tile's place, so that a result does not depend on how the work is cut.
 */
#include "kern/cpu/gemm_isa.h"

#include "base/isa_level.h"
#include "kern/cpu/vmath.h"

#if VW == 16
#define MR 12
#else
#define MR 6
#endif
#define NR (2 * VW)

/* acc[MR][NR] = panel a [k][MR] times panel b [k][NR]. A function of its own, so that nothing else claims registers.
 * out: the tile's place, fetched meanwhile, with its row stride in bytes. */
static __attribute__((noinline)) void multiply(uint64_t k, const float *a, const float *b, vf acc[MR][2],
                                               const char *out, uint64_t out_step)
{
    vf c[MR][2] = {0};
    for (int i = 0; i < MR; i++) __builtin_prefetch(out + (uint64_t)i * out_step, 1);
    for (uint64_t p = 0; p < k; p++, a += MR, b += NR) {
        vf b0 = vload(b), b1 = vload(b + VW);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            vf ai = vset1(a[i]);
            c[i][0] += ai * b0;
            c[i][1] += ai * b1;
        }
    }
    memcpy(acc, c, sizeof c);
}

/* One row of a tile, count columns of it, by the rule of lzt_gemm_store; s is placed at the row's first column. */
VINLINE void store_row(const vf acc[2], uint64_t row, uint64_t column, uint64_t count, const lzt_gemm_store *s)
{
    float *sum = s->sum ? s->sum + row * s->ld_sum + column : NULL;
    for (uint64_t j = 0; j < count; j += VW) {
        uint64_t part = count - j < VW ? count - j : VW;
        vf v = acc[j / VW];
        if (s->add_sum) v += part == VW ? vload(sum + j) : vload_part(sum + j, part);
        if (s->bias)
            v += part == VW ? vload_dtype(s->bias, column + j, s->bf16)
                            : vload_dtype_part(s->bias, column + j, part, s->bf16);
        if (s->residual) {
            uint64_t at = row * s->ld_residual + column + j;
            v += part == VW ? vload_dtype(s->residual, at, s->bf16) : vload_dtype_part(s->residual, at, part, s->bf16);
        }
        if (s->to_c_bf16) {
            uint16_t *c = (uint16_t *)s->c + row * s->ldc + column + j;
            part == VW ? vstore_bf16(c, v) : vstore_bf16_part(c, v, part);
        } else {
            part == VW ? vstore(sum + j, v) : vstore_part(sum + j, v, part);
        }
    }
}

/* A whole tile without bias and residual, the common case: straight-line code for each rule. */
VINLINE void store_tile(const vf acc[MR][2], float *sum, uint64_t ld_sum, uint16_t *c, uint64_t ldc, bool add)
{
#pragma GCC unroll 16
    for (uint64_t r = 0; r < MR; r++) {
        vf v0 = acc[r][0], v1 = acc[r][1];
        if (add) v0 += vload(sum + r * ld_sum), v1 += vload(sum + r * ld_sum + VW);
        if (c) {
            vstore_bf16(c + r * ldc, v0);
            vstore_bf16(c + r * ldc + VW, v1);
        } else {
            vstore(sum + r * ld_sum, v0);
            vstore(sum + r * ld_sum + VW, v1);
        }
    }
}

static void store_whole(const vf acc[MR][2], uint64_t row, uint64_t column, const lzt_gemm_store *s)
{
    float *sum = s->sum ? s->sum + row * s->ld_sum + column : NULL;
    uint16_t *c = (uint16_t *)s->c + row * s->ldc + column;
    if (!s->to_c_bf16)
        s->add_sum ? store_tile(acc, sum, s->ld_sum, NULL, 0, true) : store_tile(acc, sum, s->ld_sum, NULL, 0, false);
    else
        s->add_sum ? store_tile(acc, sum, s->ld_sum, c, s->ldc, true) : store_tile(acc, NULL, 0, c, s->ldc, false);
}

static void block(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, const lzt_gemm_store *store)
{
    bool plain = !store->bias && !store->residual, sums = store->sum && (store->add_sum || !store->to_c_bf16);
    const char *out = sums ? (const char *)store->sum : store->c;
    uint64_t size = sums ? 4 : 2, step = size * (sums ? store->ld_sum : store->ldc);
    for (uint64_t j = 0; j < n; j += NR) {
        for (uint64_t i = 0; i < m; i += MR) {
            vf acc[MR][2];
            uint64_t rows = m - i < MR ? m - i : MR, columns = n - j < NR ? n - j : NR;
            multiply(k, a + i * k, b + j * k, acc, out + i * step + j * size, step);
            if (plain && rows == MR && columns == NR)
                store_whole(acc, i, j, store);
            else
                for (uint64_t r = 0; r < rows; r++) store_row(acc[r], i + r, j, columns, store);
        }
    }
}

/* Packing works on pieces of eight floats whatever the vector width. From [k][lines] it takes STRIP rows of k for all
 * panels, then the next, which it has prefetched. */
enum { STRIP = 16 };
typedef float oct __attribute__((vector_size(32)));
typedef uint32_t oct_bits __attribute__((vector_size(32)));
typedef uint16_t oct_half __attribute__((vector_size(16)));

VINLINE float load1(const void *src, uint64_t index, bool bf16)
{
    return bf16 ? lzt_bf16_to_f32(((const uint16_t *)src)[index]) : ((const float *)src)[index];
}

/* through a pointer: passing a wide vector by value has no single ABI */
VINLINE void load8(oct *to, const void *src, uint64_t index, bool bf16)
{
    oct_half h;
    if (bf16) {
        memcpy(&h, (const uint16_t *)src + index, sizeof h);
        *to = (oct)(__builtin_convertvector(h, oct_bits) << 16);
    } else {
        memcpy(to, (const float *)src + index, sizeof *to);
    }
}

/* dst[(0..7) * width + (0..7)] = the 8 rows at src, ld apart, transposed. Of count < 8 rows, eight floats are stored
 * all the same, in the order of dst, so that a later row overwrites what an earlier one left in it; exact stores the
 * count alone. */
VINLINE void transpose8(const void *src, uint64_t at, uint64_t ld, bool bf16, uint64_t count, bool exact,
                        uint64_t width, float *dst)
{
    oct r[8], t[8], u[8];
#pragma GCC unroll 8
    for (uint64_t i = 0; i < 8; i++) load8(&r[i], src, at + (i < count ? i : 0) * ld, bf16);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) { /* pairs of rows */
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* fours */
        u[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        u[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (uint64_t i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#pragma GCC unroll 8
    for (uint64_t i = 0; i < 8; i++) memcpy(dst + i * width, &t[i], exact ? 4 * count : sizeof t[i]);
}

/* One whole panel from [width][k]. */
VINLINE void panel_rows(const void *src, bool bf16, uint64_t ld, uint64_t k, uint64_t width, float *dst)
{
    uint64_t p = 0;
    for (; p + 8 <= k; p += 8) {
        uint64_t r = 0;
        for (; r + 8 <= width; r += 8) transpose8(src, r * ld + p, ld, bf16, 8, true, width, dst + p * width + r);
        if (r == width) continue;
        if (width < 8 && p + 8 < k) /* what runs over lies in this panel and is written later */
            transpose8(src, r * ld + p, ld, bf16, width % 8, false, width, dst + p * width + r);
        else
            transpose8(src, r * ld + p, ld, bf16, width % 8, true, width, dst + p * width + r);
    }
    for (; p < k; p++)
        for (uint64_t r = 0; r < width; r++) dst[p * width + r] = load1(src, r * ld + p, bf16);
}

/* One whole panel from [k][width], rows of k from begin to end. */
VINLINE void panel_columns(const void *src, bool bf16, uint64_t ld, uint64_t begin, uint64_t end, uint64_t width,
                           float *dst)
{
    for (uint64_t p = begin; p < end; p++) {
        uint64_t r = 0;
        __builtin_prefetch((const char *)src + (p + STRIP) * ld * (bf16 ? 2 : 4));
        for (; r + 8 <= width; r += 8) {
            oct piece;
            load8(&piece, src, p * ld + r, bf16);
            memcpy(dst + p * width + r, &piece, sizeof piece);
        }
        for (; r < width; r++) dst[p * width + r] = load1(src, p * ld + r, bf16);
    }
}

/* The same for a width that is not a multiple of 8, by whole pieces: each row's piece runs past the row, over the place
 * of the next row. The last row of K, whose piece would run into the next panel, and a panel without 8 readable columns
 * from its last piece on, go the exact way. */
VINLINE void panel_columns_over(const void *src, bool bf16, uint64_t ld, uint64_t begin, uint64_t end, uint64_t k,
                                uint64_t width, float *dst)
{
    uint64_t stop = end < k ? end : k - 1;
    for (uint64_t p = begin; p < stop; p++) {
        __builtin_prefetch((const char *)src + (p + STRIP) * ld * (bf16 ? 2 : 4));
        for (uint64_t r = 0; r < width; r += 8) {
            oct piece;
            load8(&piece, src, p * ld + r, bf16);
            memcpy(dst + p * width + r, &piece, sizeof piece);
        }
    }
    panel_columns(src, bf16, ld, stop, end, width, dst);
}

static void panel_edge(const void *src, bool bf16, uint64_t line_step, uint64_t k_step, uint64_t lines, uint64_t k,
                       uint64_t width, float *dst)
{
    for (uint64_t p = 0; p < k; p++)
        for (uint64_t r = 0; r < width; r++)
            dst[p * width + r] = r < lines ? load1(src, r * line_step + p * k_step, bf16) : 0;
}

/* width and bf16 are constants where this is inlined */
VINLINE void pack_as(const void *src, bool bf16, uint64_t ld, bool k_contiguous, uint64_t lines, uint64_t k,
                     uint64_t width, float *dst)
{
    uint64_t whole = lines / width * width, size = bf16 ? 2 : 4, line_step = k_contiguous ? ld : 1;
    if (k_contiguous)
        for (uint64_t i = 0; i < whole; i += width)
            panel_rows((const char *)src + i * ld * size, bf16, ld, k, width, dst + i * k);
    else
        for (uint64_t p = 0; p < k; p += STRIP)
            for (uint64_t i = 0; i < whole; i += width) {
                const char *from = (const char *)src + i * size;
                uint64_t end = p + STRIP < k ? p + STRIP : k;
                if (width % 8 && i + width + 8 <= lines)
                    panel_columns_over(from, bf16, ld, p, end, k, width, dst + i * k);
                else
                    panel_columns(from, bf16, ld, p, end, width, dst + i * k);
            }
    if (whole < lines)
        panel_edge((const char *)src + whole * line_step * size, bf16, line_step, k_contiguous ? 1 : ld, lines - whole,
                   k, width, dst + whole * k);
}

static void pack(const void *src, bool bf16, uint64_t ld, bool k_contiguous, uint64_t lines, uint64_t k, uint64_t width,
                 float *dst)
{
    if (width == MR)
        bf16 ? pack_as(src, true, ld, k_contiguous, lines, k, MR, dst)
             : pack_as(src, false, ld, k_contiguous, lines, k, MR, dst);
    else
        bf16 ? pack_as(src, true, ld, k_contiguous, lines, k, NR, dst)
             : pack_as(src, false, ld, k_contiguous, lines, k, NR, dst);
}

const lzt_gemm_code ISA(lzt__gemm_code) = {MR, NR, pack, block};
