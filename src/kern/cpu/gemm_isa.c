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

/* acc[MR][NR] = panel a [k][MR] times panel b [k][NR]. A function of its own, so that nothing else claims registers. */
static __attribute__((noinline)) void multiply(uint64_t k, const float *a, const float *b, vf acc[MR][2])
{
    vf c[MR][2] = {0};
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

static void block(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, const lzt_gemm_store *store)
{
    for (uint64_t j = 0; j < n; j += NR) {
        for (uint64_t i = 0; i < m; i += MR) {
            vf acc[MR][2];
            uint64_t rows = m - i < MR ? m - i : MR, columns = n - j < NR ? n - j : NR;
            multiply(k, a + i * k, b + j * k, acc);
            for (uint64_t r = 0; r < rows; r++) store_row(acc[r], i + r, j, columns, store);
        }
    }
}

static void block_f32(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float alpha, float beta,
                      float *c, uint64_t ldc)
{
    for (uint64_t j = 0; j < n; j += NR) {
        for (uint64_t i = 0; i < m; i += MR) {
            vf acc[MR][2];
            uint64_t rows = m - i < MR ? m - i : MR, columns = n - j < NR ? n - j : NR;
            multiply(k, a + i * k, b + j * k, acc);
            for (uint64_t r = 0; r < rows; r++)
                for (uint64_t q = 0; q < columns; q += VW) {
                    uint64_t part = columns - q < VW ? columns - q : VW;
                    float *to = c + (i + r) * ldc + j + q;
                    vf v = acc[r][q / VW] * alpha;
                    if (beta != 0) v += vload_part(to, part) * beta;
                    part == VW ? vstore(to, v) : vstore_part(to, v, part);
                }
        }
    }
}

/* Packing moves four floats at a time whatever the vector width: a 4 x 4 transposition is short and fast everywhere. */
typedef float quad __attribute__((vector_size(16)));
typedef uint32_t quad_bits __attribute__((vector_size(16)));
typedef uint16_t quad_half __attribute__((vector_size(8)));

VINLINE float load1(const void *src, uint64_t index, bool bf16)
{
    return bf16 ? lzt_bf16_to_f32(((const uint16_t *)src)[index]) : ((const float *)src)[index];
}

VINLINE quad load4(const void *src, uint64_t index, bool bf16)
{
    quad q;
    if (bf16) {
        quad_half h;
        memcpy(&h, (const uint16_t *)src + index, sizeof h);
        return (quad)(__builtin_convertvector(h, quad_bits) << 16);
    }
    memcpy(&q, (const float *)src + index, sizeof q);
    return q;
}

/* dst[(0..3) * width + (0..3)] = transposed rows at src, ld apart; count (2 or 4) rows */
VINLINE void transpose4(const void *src, uint64_t at, uint64_t ld, bool bf16, int count, uint64_t width, float *dst)
{
    quad r0 = load4(src, at, bf16), r1 = load4(src, at + ld, bf16);
    quad r2 = count == 4 ? load4(src, at + 2 * ld, bf16) : r0, r3 = count == 4 ? load4(src, at + 3 * ld, bf16) : r1;
    quad t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    quad t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    quad c0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5), c1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
    quad c2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5), c3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
    uint64_t bytes = 4 * (uint64_t)count;
    memcpy(dst, &c0, bytes);
    memcpy(dst + width, &c1, bytes);
    memcpy(dst + 2 * width, &c2, bytes);
    memcpy(dst + 3 * width, &c3, bytes);
}

/* One whole panel from [width][k]. */
VINLINE void panel_rows(const void *src, bool bf16, uint64_t ld, uint64_t k, uint64_t width, float *dst)
{
    uint64_t p = 0;
    for (; p + 4 <= k; p += 4) {
        uint64_t r = 0;
        for (; r + 4 <= width; r += 4) transpose4(src, r * ld + p, ld, bf16, 4, width, dst + p * width + r);
        if (r < width) transpose4(src, r * ld + p, ld, bf16, 2, width, dst + p * width + r);
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
        for (; r + 4 <= width; r += 4) {
            quad q = load4(src, p * ld + r, bf16);
            memcpy(dst + p * width + r, &q, sizeof q);
        }
        for (; r < width; r++) dst[p * width + r] = load1(src, p * ld + r, bf16);
    }
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
    enum { STRIP = 16 }; /* rows of k that stay in the first cache while all panels take their part of them */
    if (k_contiguous)
        for (uint64_t i = 0; i < whole; i += width)
            panel_rows((const char *)src + i * ld * size, bf16, ld, k, width, dst + i * k);
    else
        for (uint64_t p = 0; p < k; p += STRIP)
            for (uint64_t i = 0; i < whole; i += width)
                panel_columns((const char *)src + i * size, bf16, ld, p, p + STRIP < k ? p + STRIP : k, width,
                              dst + i * k);
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

const lzt_gemm_code ISA(lzt__gemm_code) = {MR, NR, pack, block, block_f32};
