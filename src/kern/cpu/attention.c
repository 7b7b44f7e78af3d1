/* Attention forward: the operator, and the split of its work over the team.
 *
 * The work is a list of units: (document, kv head, tile of queries), each written by one thread alone. The parts of the
 * team take consecutive stretches of about the same cost (the causal triangle makes late tiles dearer). Which part
 * takes a unit does not show in its result.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/kern_cpu.h"

#include <assert.h>

/* A tile of queries of the whole group, in floats: half of a second-level cache with its Q^T and O^T. */
enum { TILE_FLOATS = 16384 };

typedef struct job {
    lzt_attention attention;
    const lzt_attention_code *code;
    const int32_t *document_begin;
    uint64_t documents, cost;
    char *scratch;
    uint64_t scratch_part_bytes;
} job;

/* Walks the units in order: init with document 0, unit.begin 0 and length 0. */
typedef struct walk {
    lzt_attention_unit unit;
    uint64_t document, length; /* the next document, the length of this one */
} walk;

static bool next_unit(const job *j, walk *w)
{
    const lzt_attention *a = &j->attention;
    w->unit.begin += w->unit.count;
    if (w->unit.begin == w->length) {
        w->unit.begin = 0;
        w->unit.kv_head++;
    }
    if (w->unit.kv_head == a->kv_heads || !w->length) {
        if (w->document == j->documents) return false;
        w->unit.kv_head = 0;
        w->unit.document = (uint64_t)j->document_begin[w->document];
        w->length = (uint64_t)(j->document_begin[w->document + 1] - j->document_begin[w->document]);
        w->document++;
    }
    uint64_t left = w->length - w->unit.begin;
    w->unit.count = left < a->tile ? left : a->tile;
    return true;
}

/* Query-key pairs, about, and what a unit costs at least. */
static uint64_t unit_cost(const lzt_attention *a, const lzt_attention_unit *u)
{
    uint64_t keys = u->begin + (u->count + 1) / 2;
    if (a->window && keys > a->window) keys = a->window;
    return u->count * (keys + 16) + 256;
}

static void run_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    float *scratch = (float *)(j->scratch + part * j->scratch_part_bytes);
    uint64_t before = 0;
    for (walk w = {{0}, 0, 0}; next_unit(j, &w);) {
        uint64_t cost = unit_cost(&j->attention, &w.unit);
        if ((2 * before + cost) * part_count / (2 * j->cost) == part) j->code->run(&j->attention, &w.unit, scratch);
        before += cost;
    }
}

bool lzt__attention_by_bf16(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    if (call->real[1] > 0) return false; /* the arithmetic of ATTENTION_CACHED */
    return call->dtype == LZT_DTYPE_BF16 && kern->isa >= LZT_ISA_AVX512_BF16 && call->dim[3] % 2 == 0;
}

static const lzt_attention_code *pick(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    if (lzt__attention_by_bf16(kern, call)) return &lzt__attention_code_bf16;
    return LZT_ISA_PICK(kern->build, lzt__attention_code);
}

static uint64_t part_bytes(const lzt_attention_code *code, uint64_t tile, uint64_t group, uint64_t head_dim)
{
    return lzt__scratch_align(code->scratch_floats(tile, group, head_dim) * sizeof(float));
}

static uint64_t tile_of(const lzt_attention_code *code, const lzt_kern_call *call)
{
    uint64_t group = call->dim[1] / call->dim[2], limit = lzt__attention_round_up(call->dim[0], code->columns);
    return lzt__attention_tile(call->dim[8], TILE_FLOATS, group, call->dim[3], code->columns,
                               limit < ATTENTION_TILE_MAX ? limit : ATTENTION_TILE_MAX);
}

uint64_t lzt__cpu_attention_fwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    const lzt_attention_code *code = pick(kern, call);
    return kern->threads * part_bytes(code, tile_of(code, call), call->dim[1] / call->dim[2], call->dim[3]);
}

lzt_status lzt__cpu_attention_fwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    lzt_status status = lzt__attention_check(call, err);
    if (status) return status;
    const uint64_t *dim = call->dim;
    const lzt_attention_code *code = pick(kern, call);
    const lzt_batch_header *batch = lzt__batch(call);
    job j = {.attention = {.q = call->ptr[1],
                           .k = call->ptr[2],
                           .v = call->ptr[3],
                           .o = call->ptr[4],
                           .lse = call->ptr[5],
                           .capacity = dim[0],
                           .q_heads = dim[1],
                           .kv_heads = dim[2],
                           .head_dim = dim[3],
                           .ldq = dim[4],
                           .ldk = dim[5],
                           .ldv = dim[6],
                           .ldo = dim[1] * dim[3],
                           .window = dim[7],
                           .tile = tile_of(code, call),
                           .scale = (float)call->real[0],
                           .bf16 = call->dtype == LZT_DTYPE_BF16},
             .code = code,
             .document_begin = lzt_batch_document(batch, dim[0]),
             .documents = batch->document_count,
             .scratch = call->scratch,
             .scratch_part_bytes = part_bytes(code, tile_of(code, call), dim[1] / dim[2], dim[3])};
    for (walk w = {{0}, 0, 0}; next_unit(&j, &w);) j.cost += unit_cost(&j.attention, &w.unit);
    lzt__team_run(kern->team, run_part, &j);
    return LZT_OK;
}

lzt_status lzt__attention_check(const lzt_kern_call *call, lzt_error *err)
{
    const char *name = lzt_op_name(call->op);
    if (!call->dim[1] || !call->dim[2] || !call->dim[3] || call->dim[1] % call->dim[2])
        return lzt_fail(err, LZT_ERR_INTERNAL, name, "%llu query heads on %llu kv heads of %llu columns",
                        (unsigned long long)call->dim[1], (unsigned long long)call->dim[2],
                        (unsigned long long)call->dim[3]);
    if (!(call->real[0] > 0)) return lzt_fail(err, LZT_ERR_INTERNAL, name, "the scale is %g", call->real[0]);
    const lzt_batch_header *batch = lzt__batch(call);
    const int32_t *begin = lzt_batch_document(batch, call->dim[0]);
    bool ordered =
        batch->document_count && begin[0] == 0 && (uint32_t)begin[batch->document_count] == batch->token_count;
    for (uint32_t i = 0; ordered && i < batch->document_count; i++) ordered = begin[i] < begin[i + 1];
    if (!ordered)
        return lzt_fail(err, LZT_ERR_INTERNAL, name, "the batch's %u documents do not cover its %u tokens",
                        batch->document_count, batch->token_count);
    return LZT_OK;
}
