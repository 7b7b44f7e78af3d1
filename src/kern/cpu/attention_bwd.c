/* Attention backward: the operator, and the order in which gradients are summed.
 *
 * A document is cut into chunks of ATTENTION_CHUNK tokens. A unit is (document, kv head, chunk I of queries, chunk C of
 * keys) and adds to dq of I and to dk and dv of C. In round s all units with I = C + s run, at once:
 *
 *            C0  C1  C2  C3
 *     I0      0                   each I and each C occurs once in a round, so no two units of a round share a sum;
 *     I1      1   0               between rounds the team waits. dq of I3 is summed in the order C3, C2, C1, C0,
 *     I2      2   1   0           dk and dv of C0 in the order I0, I1, I2, I3, whatever the threads do.
 *     I3      3   2   1   0
 *
 * The sums are F32: in BF16 they lie in scratch and are rounded once, in F32 they are the outputs themselves.
 */
#include "kern/cpu/attention.h"

#include "kern/cpu/kern_cpu.h"

#include <assert.h>

enum { TILE_FLOATS = 8192 };

typedef struct job {
    lzt_attention_grad grad;
    const lzt_attention_bwd_code *code;
    const lzt_attention_row_code *rows;
    const int32_t *document_begin;
    uint64_t documents, tokens, round, cost;
    char *scratch;
    uint64_t scratch_part_bytes;
    uint16_t *out[3]; /* BF16: dq, dk, dv and their row stride */
    uint64_t ld_out;
} job;

/* Walks the units of a round: begin with all zero. */
typedef struct walk {
    lzt_attention_unit unit;
    uint64_t document, length, chunk; /* the next document, the length of this one, the next chunk of keys */
} walk;

static uint64_t chunks_of(uint64_t tokens)
{
    return (tokens + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
}

static uint64_t chunk_count(uint64_t length, uint64_t begin)
{
    return length - begin < ATTENTION_CHUNK ? length - begin : ATTENTION_CHUNK;
}

static bool next_unit(const job *j, walk *w)
{
    if (w->length && w->chunk + j->round >= chunks_of(w->length)) {
        w->chunk = 0;
        w->unit.kv_head++;
    }
    if (!w->length || w->unit.kv_head == j->grad.fwd.kv_heads) {
        do {
            if (w->document == j->documents) return false;
            w->unit.document = (uint64_t)j->document_begin[w->document];
            w->length = (uint64_t)(j->document_begin[w->document + 1] - j->document_begin[w->document]);
            w->document++;
        } while (j->round >= chunks_of(w->length));
        w->unit.kv_head = w->chunk = 0;
    }
    w->unit.key_begin = w->chunk * ATTENTION_CHUNK;
    w->unit.begin = (w->chunk + j->round) * ATTENTION_CHUNK;
    w->unit.key_count = chunk_count(w->length, w->unit.key_begin);
    w->unit.count = chunk_count(w->length, w->unit.begin);
    w->chunk++;
    return true;
}

static uint64_t unit_cost(const job *j, const lzt_attention_unit *u)
{
    return u->count * (j->round ? u->key_count : u->key_count / 2 + 16) + 256;
}

static void run_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    float *scratch = (float *)(j->scratch + part * j->scratch_part_bytes);
    uint64_t before = 0;
    for (walk w = {{0}, 0, 0, 0}; next_unit(j, &w);) {
        uint64_t cost = unit_cost(j, &w.unit);
        if ((2 * before + cost) * part_count / (2 * j->cost) == part)
            j->code->run(&j->grad, &w.unit, j->round == 0, scratch);
        before += cost;
    }
}

static void delta_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    uint64_t begin, end;
    lzt__team_split(j->tokens, 16, part, part_count, &begin, &end);
    j->rows->delta(&j->grad, begin, end);
}

static void round_part(void *arg, uint32_t part, uint32_t part_count)
{
    const job *j = arg;
    const lzt_attention *a = &j->grad.fwd;
    const float *sums[3] = {j->grad.dq, j->grad.dk, j->grad.dv};
    uint64_t begin, end, columns[3] = {a->q_heads * a->head_dim, a->kv_heads * a->head_dim, a->kv_heads * a->head_dim};
    lzt__team_split(j->tokens, 16, part, part_count, &begin, &end);
    for (uint64_t t = begin; t < end; t++)
        for (int i = 0; i < 3; i++)
            j->rows->round_row(sums[i] + t * j->grad.ld_sum, j->out[i] + t * j->ld_out, columns[i]);
}

static const lzt_attention_bwd_code *pick(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    if (lzt__attention_by_bf16(kern, call)) return &lzt__attention_bwd_code_bf16;
    return LZT_ISA_PICK(kern->build, lzt__attention_bwd_code);
}

static uint64_t tile_of(const lzt_attention_bwd_code *code, const lzt_kern_call *call)
{
    uint64_t limit = lzt__attention_round_up(call->dim[0], code->columns);
    return lzt__attention_tile(call->dim[8], TILE_FLOATS, call->dim[1] / call->dim[2], call->dim[3], code->columns,
                               limit < ATTENTION_CHUNK ? limit : ATTENTION_CHUNK);
}

/* The scratch: delta, the sums (BF16), then a part for each thread. */
typedef struct layout {
    uint64_t sums, parts, part_bytes, bytes;
} layout;

static layout scratch_layout(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    const uint64_t *dim = call->dim;
    const lzt_attention_bwd_code *code = pick(kern, call);
    layout l = {.sums = lzt__scratch_align(dim[0] * dim[1] * sizeof(float))};
    uint64_t columns = call->dtype == LZT_DTYPE_BF16 ? (dim[1] + 2 * dim[2]) * dim[3] : 0;
    l.parts = l.sums + lzt__scratch_align(dim[0] * columns * sizeof(float));
    l.part_bytes =
        lzt__scratch_align(code->scratch_floats(tile_of(code, call), dim[1] / dim[2], dim[3]) * sizeof(float));
    l.bytes = l.parts + kern->threads * l.part_bytes;
    return l;
}

uint64_t lzt__cpu_attention_bwd_scratch(const lzt_kern_cpu *kern, const lzt_kern_call *call)
{
    return scratch_layout(kern, call).bytes;
}

static void fill_job(const lzt_kern_cpu *kern, const lzt_kern_call *call, job *j)
{
    const uint64_t *dim = call->dim;
    layout l = scratch_layout(kern, call);
    uint64_t q_columns = dim[1] * dim[3], kv_columns = dim[2] * dim[3];
    *j = (job){.grad = {.fwd = {.q = call->ptr[1],
                                .k = call->ptr[2],
                                .v = call->ptr[3],
                                .o = call->ptr[4],
                                .lse = call->ptr[5],
                                .capacity = dim[0],
                                .q_heads = dim[1],
                                .kv_heads = dim[2],
                                .head_dim = dim[3],
                                .ldq = dim[4],
                                .ldk = dim[4],
                                .ldv = dim[5],
                                .ldo = q_columns,
                                .window = dim[7],
                                .scale = (float)call->real[0],
                                .bf16 = call->dtype == LZT_DTYPE_BF16},
                        .d_o = call->ptr[6],
                        .delta = call->scratch,
                        .dq = call->ptr[7],
                        .dk = call->ptr[8],
                        .dv = call->ptr[9],
                        .ld_sum = dim[6]},
               .code = pick(kern, call),
               .rows = LZT_ISA_PICK(kern->build, lzt__attention_row_code),
               .document_begin = lzt_batch_document(call->ptr[0], dim[0]),
               .documents = lzt__batch(call)->document_count,
               .tokens = lzt__batch(call)->token_count,
               .scratch = (char *)call->scratch + l.parts,
               .scratch_part_bytes = l.part_bytes,
               .out = {call->ptr[7], call->ptr[8], call->ptr[9]},
               .ld_out = dim[6]};
    j->grad.fwd.tile = tile_of(j->code, call);
    if (!j->grad.fwd.bf16) return;
    j->grad.dq = (float *)((char *)call->scratch + l.sums);
    j->grad.dk = j->grad.dq + q_columns;
    j->grad.dv = j->grad.dk + kv_columns;
    j->grad.ld_sum = q_columns + 2 * kv_columns;
}

/* Rounds until chunks are further apart than documents are long or the window reaches. */
static uint64_t round_count(const job *j)
{
    uint64_t longest = 0, window = j->grad.fwd.window;
    for (uint64_t d = 0; d < j->documents; d++) {
        uint64_t length = (uint64_t)(j->document_begin[d + 1] - j->document_begin[d]);
        if (length > longest) longest = length;
    }
    uint64_t rounds = chunks_of(longest), reach = (ATTENTION_CHUNK - 2 + window) / ATTENTION_CHUNK + 1;
    return window && reach < rounds ? reach : rounds;
}

lzt_status lzt__cpu_attention_bwd(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    lzt_status status = lzt__attention_check(call, err);
    if (status) return status;
    job j;
    fill_job(kern, call, &j);
    lzt__team_run(kern->team, delta_part, &j);
    uint64_t rounds = round_count(&j);
    for (j.round = 0; j.round < rounds; j.round++) {
        j.cost = 0;
        for (walk w = {{0}, 0, 0, 0}; next_unit(&j, &w);) j.cost += unit_cost(&j, &w.unit);
        lzt__team_run(kern->team, run_part, &j);
    }
    if (j.grad.fwd.bf16) lzt__team_run(kern->team, round_part, &j);
    return LZT_OK;
}
