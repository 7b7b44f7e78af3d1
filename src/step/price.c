/* Pricing: see lazytrain/price.h. */
#include "lazytrain/price.h"

#include "lazytrain/kern.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const char *dtype_text(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_BF16 ? "bf16" : "f32"; /* what plans compute in */
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static const lzt_operand *operand(const lzt_program_info *p, const lzt_task *t, int slot)
{
    for (uint32_t i = 0; i < t->operand_count; i++)
        if (p->operand[t->first_operand + i].slot == slot) return &p->operand[t->first_operand + i];
    return NULL;
}

static uint64_t tokens_of(const lzt_price_options *o, uint64_t capacity)
{
    return o->tokens ? least(o->tokens, capacity) : capacity;
}

/* "576x1536" of dim[1] .. until the first that is 0; none: "". */
static void put_dims(char *text, size_t size, const uint64_t *dim, int count)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < count && dim[i] && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%c%llu", i ? 'x' : '.', (unsigned long long)dim[i]);
}

/* Operators whose weight gradients have a dtype of their own. */
static const char *gradient_suffix(const lzt_task *t)
{
    bool writes = t->op == LZT_OP_LINEAR_BWD_W || t->op == LZT_OP_RMSNORM_BWD || t->op == LZT_OP_HEAD_NORM_BWD;
    if (!writes || t->grad_dtype == t->dtype) return "";
    return t->grad_dtype == LZT_DTYPE_F32 ? ".to_f32" : ".to_bf16";
}

/* Tokens of a document, of so many tokens in all. */
static uint64_t document_of(const lzt_price_options *o, uint64_t tokens)
{
    if (o->document_tokens) return least(o->document_tokens, tokens);
    return tokens / (o->documents ? o->documents : 1);
}

static bool name_attention(const lzt_task *t, const lzt_price_options *o, lzt_measurement *m)
{
    char dims[96];
    uint64_t tokens = tokens_of(o, t->dim[0]);
    put_dims(dims, sizeof dims, t->dim + 1, 3);
    int n = snprintf(m->name, sizeof m->name, "%s.%s%s.doc%llu", lzt_op_name(t->op), dtype_text(t->dtype), dims,
                     (unsigned long long)document_of(o, tokens));
    for (int i = 7; i <= 8; i++)
        if (t->dim[i] && n < (int)sizeof m->name)
            n += snprintf(m->name + n, sizeof m->name - (size_t)n, ".%s%llu", i == 7 ? "window" : "tile",
                          (unsigned long long)t->dim[i]);
    m->size = tokens;
    return true;
}

static bool name_loss(const lzt_program_info *p, const lzt_task *t, const lzt_price_options *o, lzt_measurement *m)
{
    char dims[64];
    uint64_t tokens = tokens_of(o, t->dim[0]), rows = tokens > t->dim[3] ? least(tokens - t->dim[3], t->dim[4]) : 0;
    bool forward = !operand(p, t, 4);
    put_dims(dims, sizeof dims, t->dim + 1, 2);
    snprintf(m->name, sizeof m->name, "%s.%s%s%s", lzt_op_name(t->op), dtype_text(t->dtype), dims,
             forward     ? ".forward"
             : t->dim[5] ? ".first"
                         : "");
    m->size = rows;
    return rows > 0;
}

/* A whole layer: "layer_fwd.bf16.linear_attention". */
static bool name_layer(const lzt_task *t, const lzt_price_options *o, lzt_measurement *m)
{
    static const char *const kinds[LZT_LAYER_KIND_COUNT] = {"full_attention", "sliding_attention", "linear_attention"};
    (void)o;
    snprintf(m->name, sizeof m->name, "%s.%s.%s", lzt_op_name(t->op), dtype_text(t->dtype), kinds[t->dim[1]]);
    m->size = t->dim[0];
    return true;
}

static bool name_kernel(const lzt_program_info *p, const lzt_task *t, const lzt_price_options *o, lzt_measurement *m)
{
    char dims[128];
    m->kind = LZT_MEASURE_TIME;
    if (t->op == LZT_OP_ATTENTION_FWD || t->op == LZT_OP_ATTENTION_BWD) return name_attention(t, o, m);
    if (t->op == LZT_OP_LAYER_FWD || t->op == LZT_OP_LAYER_BWD) return name_layer(t, o, m);
    if (t->op == LZT_OP_LOSS_CHUNK) return name_loss(p, t, o, m);
    if (t->op == LZT_OP_CAST) {
        snprintf(m->name, sizeof m->name, "%s.%s", lzt_op_name(t->op), dtype_text(t->grad_dtype));
        m->size = t->dim[0];
        return true;
    }
    put_dims(dims, sizeof dims, t->dim + 1, LZT_KERN_DIMS - 1);
    snprintf(m->name, sizeof m->name, "%s.%s%s%s", lzt_op_name(t->op), dtype_text(t->dtype), dims, gradient_suffix(t));
    m->size = tokens_of(o, t->dim[0]);
    return true;
}

/* Bytes that a host task touches. gather and scatter declare whole tables of which they touch the batch's rows. */
static uint64_t host_bytes(const lzt_program_info *p, const lzt_task *t)
{
    uint64_t bytes = 0;
    if (t->host_op == LZT_HOST_GATHER) return operand(p, t, 2)->bytes;
    if (t->host_op == LZT_HOST_SCATTER) return operand(p, t, 1)->bytes;
    for (uint32_t i = 0; i < t->operand_count; i++) bytes += p->operand[t->first_operand + i].bytes;
    return bytes;
}

static bool name_host(const lzt_program_info *p, const lzt_task *t, lzt_measurement *m)
{
    bool both = t->host_op == LZT_HOST_ADAMW || t->host_op == LZT_HOST_SCATTER;
    bool gradient = both || t->host_op == LZT_HOST_ADD || t->host_op == LZT_HOST_NORM;
    m->kind = LZT_MEASURE_RATE;
    snprintf(m->name, sizeof m->name, "%s%s%s%s%s", lzt_host_op_name(t->host_op), both ? "." : "",
             both ? dtype_text(t->dtype) : "", gradient ? "." : "", gradient ? dtype_text(t->grad_dtype) : "");
    m->size = host_bytes(p, t);
    return t->host_op != LZT_HOST_CLIP;
}

bool lzt_price_entry(const lzt_program_info *p, const lzt_task *t, const lzt_price_options *o, lzt_measurement *m)
{
    assert(o->struct_bytes == sizeof *o);
    *m = (lzt_measurement){.kind = LZT_MEASURE_RATE};
    if (t->op) return name_kernel(p, t, o, m);
    if (t->host_op) return name_host(p, t, m);
    snprintf(m->name, sizeof m->name, "%s", lzt_lane_name(t->lane));
    m->size = p->operand[t->first_operand].bytes;
    return m->size > 0;
}

/* ---- looking up ---- */

static double seconds_of(const lzt_measurement *m)
{
    if (m->kind == LZT_MEASURE_TIME) return m->median;
    return m->median > 0 ? (double)m->size / m->median : INFINITY;
}

/* The first measurement that is not before this name: they are in order. */
static uint64_t first_of(const lzt_profile *profile, lzt_measure kind, const char *name)
{
    uint64_t low = 0, high = profile->measurement_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const lzt_measurement *m = &profile->measurement[middle];
        if (m->kind < kind || (m->kind == kind && strcmp(m->name, name) < 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool lzt_price_seconds(const lzt_profile *profile, lzt_measure kind, const char *name, uint64_t size, double *seconds)
{
    const lzt_measurement *below = NULL, *above = NULL; /* the nearest at most, and at least, this size */
    for (uint64_t i = first_of(profile, kind, name); i < profile->measurement_count; i++) {
        const lzt_measurement *m = &profile->measurement[i];
        if (m->kind != kind || strcmp(m->name, name)) break;
        if (m->size <= size) below = m;
        if (m->size >= size && !above) above = m;
    }
    const lzt_measurement *near = below ? below : above;
    if (!near) return false;
    double at = (double)size, own = (double)near->size;
    if (below && above && below != above) {
        double share = (at - own) / ((double)above->size - own);
        *seconds = seconds_of(below) + share * (seconds_of(above) - seconds_of(below));
    } else if (near->size == size || !near->size || (kind == LZT_MEASURE_RATE && at < own)) {
        *seconds = seconds_of(near);
    } else {
        if (kind == LZT_MEASURE_TIME && (at > 2 * own || at < own / 2)) return false;
        *seconds = seconds_of(near) * at / own;
    }
    return isfinite(*seconds);
}

double lzt_price_flops_per_s(const lzt_profile *profile, lzt_dtype dtype)
{
    char prefix[64];
    double flops = 0, seconds = 0;
    int length = snprintf(prefix, sizeof prefix, "%s.%s.", lzt_op_name(LZT_OP_LINEAR_FWD), dtype_text(dtype));
    for (uint64_t i = 0; i < profile->measurement_count; i++) {
        const lzt_measurement *m = &profile->measurement[i];
        unsigned long long k, n;
        if (m->kind != LZT_MEASURE_TIME || strncmp(m->name, prefix, (size_t)length)) continue;
        if (sscanf(m->name + length, "%llux%llu", &k, &n) != 2) continue;
        flops += 2.0 * (double)m->size * (double)k * (double)n;
        seconds += m->median;
    }
    return seconds > 0 ? flops / seconds : 0;
}

static lzt_status lacks(const lzt_measurement *m, const lzt_task *t, const lzt_price_options *o, lzt_error *err)
{
    uint64_t documents = o->documents ? o->documents : 1;
    lzt_fail(err, LZT_ERR_USAGE, "profile", "has no %s \"%s\" near %llu, which %s needs",
             m->kind == LZT_MEASURE_RATE ? "rate" : "time", m->name, (unsigned long long)m->size, t->name);
    return lzt_hint(err, "lazytrain probe --model %s --batch %llu --seq %llu --dtype %s --out profile.json",
                    o->model_directory ? o->model_directory : "MODEL", (unsigned long long)documents,
                    (unsigned long long)(o->tokens / documents), dtype_text(t->dtype));
}

static lzt_status disbelieve(const lzt_measurement *m, double seconds, const char *task, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_USAGE, "profile", "by its %s \"%s\", %s takes %.3g s; more than %g is not believed",
             m->kind == LZT_MEASURE_RATE ? "rate" : "time", m->name, task, seconds, LZT_PRICE_SECONDS_MAX);
    return lzt_hint(err, "correct it, or measure it anew with lazytrain probe");
}

static bool is_layer(const lzt_task *t)
{
    return t->op == LZT_OP_LAYER_FWD || t->op == LZT_OP_LAYER_BWD;
}

/* A layer without kernels, and without a time of its own: its operations at the rate of linear products. Documents do
 * not attend to each other: a part of the micro-batch is at least one of them. */
static lzt_status price_flops(const lzt_task *t, const lzt_price_options *o, double *seconds, lzt_error *err)
{
    double rate = lzt_price_flops_per_s(o->profile, t->dtype);
    lzt_kern_call call = {.op = t->op, .dtype = t->dtype};
    memcpy(call.dim, t->dim, sizeof call.dim);
    memcpy(call.real, t->real, sizeof call.real);
    uint64_t document = document_of(o, o->tokens) ? document_of(o, o->tokens) : 1;
    lzt_measurement any;
    name_layer(t, o, &any);
    any.kind = LZT_MEASURE_TIME;
    if (rate <= 0) return lacks(&any, t, o, err);
    if (document > t->dim[0]) document = t->dim[0];
    *seconds = lzt_op_flops(&call, document) * ((double)t->dim[0] / (double)document) / rate;
    return LZT_OK;
}

/* Of a token. */
static double attention_flops(const lzt_task *t, uint64_t document)
{
    lzt_kern_call call = {.op = t->op, .dtype = t->dtype};
    memcpy(call.dim, t->dim, sizeof call.dim);
    memcpy(call.real, t->real, sizeof call.real);
    return lzt_op_flops(&call, document) / (double)document;
}

/* The length in a name that differs from ours in nothing else; 0: it differs. */
static uint64_t same_but_length(const char *name, const char *ours)
{
    const char *mark = strstr(ours, ".doc");
    size_t length = (size_t)(mark - ours) + 4;
    char *end, *our_end;
    if (strncmp(name, ours, length)) return 0;
    unsigned long long document = strtoull(name + length, &end, 10);
    strtoull(ours + length, &our_end, 10);
    return strcmp(end, our_end) ? 0 : document;
}

/* Attention over documents of a length that was not measured: from the nearest that was, by their operations. */
static bool price_documents(const lzt_task *t, const lzt_price_options *o, const lzt_measurement *m, double *seconds)
{
    double wanted = (double)document_of(o, tokens_of(o, t->dim[0])), near = INFINITY, measured;
    const lzt_measurement *best = NULL;
    uint64_t document = 0;
    if (!o->document_tokens || (t->op != LZT_OP_ATTENTION_FWD && t->op != LZT_OP_ATTENTION_BWD)) return false;
    for (uint64_t i = 0; i < o->profile->measurement_count; i++) {
        const lzt_measurement *x = &o->profile->measurement[i];
        uint64_t length = x->kind == m->kind ? same_but_length(x->name, m->name) : 0;
        double far = length ? fabs(log((double)length / wanted)) : INFINITY;
        if (far >= near || !lzt_price_seconds(o->profile, x->kind, x->name, m->size, &measured)) continue;
        best = x;
        near = far;
        document = length;
    }
    if (!best) return false;
    lzt_price_seconds(o->profile, best->kind, best->name, m->size, &measured);
    *seconds = measured * attention_flops(t, (uint64_t)wanted) / attention_flops(t, document);
    return isfinite(*seconds);
}

lzt_status lzt_price_tasks(const lzt_program *program, const lzt_price_options *options, double *seconds,
                           lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    lzt_price_options o = *options;
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < p->task_count && !o.tokens; i++) /* for messages: what the capacity is */
        if (p->task[i].op == LZT_OP_ROPE_TABLE) o.tokens = p->task[i].dim[0];
    for (uint32_t i = 0; i < p->task_count && !status; i++) {
        const lzt_task *t = &p->task[i];
        lzt_measurement m;
        seconds[i] = 0;
        if (!lzt_price_entry(p, t, &o, &m)) continue;
        if (!lzt_price_seconds(o.profile, m.kind, m.name, m.size, &seconds[i]) &&
            !price_documents(t, &o, &m, &seconds[i]))
            status = is_layer(t) ? price_flops(t, &o, &seconds[i], err) : lacks(&m, t, &o, err);
        if (!status && !(seconds[i] <= LZT_PRICE_SECONDS_MAX)) status = disbelieve(&m, seconds[i], t->name, err);
    }
    return status;
}

lzt_status lzt_price_contention(const lzt_profile *profile, lzt_contention *c, lzt_error *err)
{
    char name[64];
    *c = (lzt_contention){0};
    lzt_price_seconds(profile, LZT_MEASURE_TIME, "handover", 0, &c->handover_seconds);
    if (!(c->handover_seconds <= LZT_PRICE_SECONDS_MAX))
        return disbelieve(&(lzt_measurement){.kind = LZT_MEASURE_TIME, .name = "handover"}, c->handover_seconds,
                          "a hand-over", err);
    for (int a = 0; a < LZT_LANE_COUNT; a++)
        for (int b = 0; b < LZT_LANE_COUNT; b++) {
            double alone = 0, beside = 0;
            c->slowdown[a][b] = 1;
            snprintf(name, sizeof name, "overlap.%s.%s", lzt_lane_name((lzt_lane)a), lzt_lane_name((lzt_lane)b));
            if (!lzt_price_seconds(profile, LZT_MEASURE_TIME, name, 0, &beside)) continue;
            snprintf(name, sizeof name, "overlap.%s", lzt_lane_name((lzt_lane)a));
            if (!lzt_price_seconds(profile, LZT_MEASURE_TIME, name, 0, &alone) || !(alone > 0)) {
                lzt_fail(err, LZT_ERR_USAGE, "profile", "has overlap.%s.%s but not the same work alone, \"%s\"",
                         lzt_lane_name((lzt_lane)a), lzt_lane_name((lzt_lane)b), name);
                return lzt_hint(err, "lazytrain probe measures both");
            }
            if (beside > alone) c->slowdown[a][b] = beside / alone;
            if (c->slowdown[a][b] > LZT_PRICE_SLOWDOWN_MAX)
                return lzt_fail(err, LZT_ERR_USAGE, "profile",
                                "overlap.%s.%s is %.3g times the same work alone; more than %g is not believed",
                                lzt_lane_name((lzt_lane)a), lzt_lane_name((lzt_lane)b), c->slowdown[a][b],
                                LZT_PRICE_SLOWDOWN_MAX);
        }
    return LZT_OK;
}
