/* The key-value cache of generation: storing a batch's keys and values, and attention of new tokens over it.
 *
 * A sequence's keys lie as rows of all kv heads, one a position, so that they read as a document's do. The work of
 * attention is (document, kv head), each written by one thread alone; the parts of the team take consecutive stretches
 * of about the same number of keys.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/kern_cpu.h"

#include <string.h>

/* Every document's place in the cache is one that it has. one: a single token each. */
static lzt_status check_places(const lzt_kern_call *call, uint64_t sequences, uint64_t positions, bool one,
                               lzt_error *err)
{
    const lzt_batch_header *batch = lzt__batch(call);
    const int32_t *sequence = lzt_batch_sequence(batch, call->dim[0]), *position = lzt_batch_position(batch);
    const int32_t *begin = lzt_batch_document(batch, call->dim[0]);
    for (uint32_t d = 0; d < batch->document_count; d++) {
        int32_t from = begin[d], to = begin[d + 1];
        bool whole = from >= 0 && from < to && (uint32_t)to <= batch->token_count && (!one || to == from + 1);
        if (!whole || sequence[d] < 0 || (uint64_t)sequence[d] >= sequences || position[from] < 0 ||
            (uint64_t)position[to - 1] >= positions || position[to - 1] - position[from] != to - 1 - from)
            return lzt_fail(err, LZT_ERR_INTERNAL, lzt_op_name(call->op),
                            "document %u (tokens %d to %d) has no place in sequence %d of a cache of %llu by %llu", d,
                            from, to, sequence[d], (unsigned long long)sequences, (unsigned long long)positions);
    }
    return LZT_OK;
}

uint64_t lzt__cpu_cache_store_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    (void)kern;
    (void)call;
    return 0;
}

lzt_status lzt__cpu_cache_store(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    (void)kern;
    const lzt_batch_header *batch = lzt__batch(call);
    const int32_t *sequence = lzt_batch_sequence(batch, call->dim[0]), *position = lzt_batch_position(batch);
    const int32_t *begin = lzt_batch_document(batch, call->dim[0]);
    uint64_t size = lzt_dtype_bytes(call->dtype), row = call->dim[1] * size, positions = call->dim[5];
    lzt_status status = check_places(call, call->dim[4], positions, false, err);
    for (uint32_t d = 0; !status && d < batch->document_count; d++)
        for (int32_t t = begin[d]; t < begin[d + 1]; t++) {
            uint64_t to = ((uint64_t)sequence[d] * positions + (uint64_t)position[t]) * row;
            memcpy((char *)call->ptr[3] + to, (const char *)call->ptr[1] + (uint64_t)t * call->dim[2] * size, row);
            memcpy((char *)call->ptr[4] + to, (const char *)call->ptr[2] + (uint64_t)t * call->dim[3] * size, row);
        }
    return status;
}

typedef struct job {
    lzt_attention attention; /* k and v: of sequence 0 */
    const lzt_attention_code *code;
    const int32_t *sequence, *position;
    uint64_t documents, sequence_bytes, cost;
    char *scratch;
    uint64_t scratch_part_bytes;
} job;

/* Keys that the document's token sees, and what a unit costs at least. */
static uint64_t unit_cost(const job *j, uint64_t document)
{
    uint64_t keys = (uint64_t)j->position[document] + 1, window = j->attention.window;
    return (window && keys > window ? window : keys) + 64;
}

static void run_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    float *scratch = (float *)(j->scratch + part * j->scratch_part_bytes);
    uint64_t before = 0;
    for (uint64_t d = 0; d < j->documents; d++) {
        lzt_attention a = j->attention;
        uint64_t cost = unit_cost(j, d), skip = (uint64_t)j->sequence[d] * j->sequence_bytes;
        a.k = (const char *)a.k + skip;
        a.v = (const char *)a.v + skip;
        for (uint64_t kv_head = 0; kv_head < a.kv_heads; kv_head++, before += cost) {
            if ((2 * before + cost) * part_count / (2 * j->cost) != part) continue;
            lzt_attention_unit unit = {
                .document = d, .kv_head = kv_head, .begin = (uint64_t)j->position[d], .count = 1};
            j->code->run_one(&a, &unit, scratch);
        }
    }
}

static uint64_t part_bytes(const lzt_attention_code *code, const lzt_kern_call *call)
{
    uint64_t panels = lzt__attention_group_panels(call->dim[1] / call->dim[2], code->columns);
    return lzt__scratch_align(code->scratch_floats(code->columns, panels, call->dim[3]) * sizeof(float));
}

uint64_t lzt__cpu_attention_cached_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    return kern->threads * part_bytes(LZT_ISA_PICK(kern->build, lzt__attention_code), call);
}

lzt_status lzt__cpu_attention_cached(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    const uint64_t *dim = call->dim;
    const lzt_batch_header *batch = lzt__batch(call);
    lzt_status status = lzt__attention_check(call, err);
    if (!status) status = check_places(call, dim[5], dim[6], true, err);
    if (status) return status;
    uint64_t columns = dim[2] * dim[3];
    job j = {.attention = {.q = call->ptr[1],
                           .k = call->ptr[2],
                           .v = call->ptr[3],
                           .o = call->ptr[4],
                           .capacity = dim[0],
                           .q_heads = dim[1],
                           .kv_heads = dim[2],
                           .head_dim = dim[3],
                           .ldq = dim[4],
                           .ldk = columns,
                           .ldv = columns,
                           .ldo = dim[1] * dim[3],
                           .window = dim[7],
                           .scale = (float)call->real[0],
                           .bf16 = call->dtype == LZT_DTYPE_BF16},
             .code = LZT_ISA_PICK(kern->build, lzt__attention_code),
             .sequence = lzt_batch_sequence(batch, dim[0]),
             .position = lzt_batch_position(batch),
             .documents = batch->document_count,
             .sequence_bytes = dim[6] * columns * lzt_dtype_bytes(call->dtype),
             .scratch = call->scratch};
    j.scratch_part_bytes = part_bytes(j.code, call);
    for (uint64_t d = 0; d < j.documents; d++) j.cost += unit_cost(&j, d) * dim[2];
    lzt__team_run(kern->team, run_part, &j);
    return LZT_OK;
}
