/* From step programs to a probe's list of work: see probe_list.h. */
#include "cli/probe_list.h"

#include "cli/talk.h"
#include "lazytrain/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES_MAX = 16, HOST_MAX = 64 };
/* Beside shorter copies nothing runs long enough to be seen. */
#define PAIR_COPY_MIN (UINT64_C(1) << 20)
#define PAIR_COPY_MAX (UINT64_C(16) << 20)

/* No larger chunk's logits are measured. */
#define CHUNK_LOGITS_BYTES (UINT64_C(128) << 20)

typedef struct list {
    const lzt_session *s;
    lzt_price_options price;
    lzt_probe_kernel *kernel;
    lzt_probe_operand *operand;
    uint64_t *buffer_bytes, *buffer_of; /* by object + 1; 0: none yet */
    uint32_t kernel_count, operand_count, buffer_count, descriptor;
    bool has_descriptor;
    lzt_probe_host host[HOST_MAX];
    uint32_t host_count;
    uint64_t copy[COPIES_MAX];
    uint32_t copy_count;
    uint64_t longest_copy; /* of the programs */
} list;

static bool has_kernel(const list *l, const lzt_measurement *m)
{
    for (uint32_t i = 0; i < l->kernel_count; i++)
        if (l->kernel[i].entry.size == m->size && !strcmp(l->kernel[i].entry.name, m->name)) return true;
    return false;
}

static void add_kernel(list *l, const lzt_program_info *p, const lzt_task *t, const lzt_measurement *m)
{
    lzt_probe_kernel *k = &l->kernel[l->kernel_count++];
    *k = (lzt_probe_kernel){.entry = *m,
                            .call = {.op = t->op, .dtype = t->dtype, .grad_dtype = t->grad_dtype},
                            .operand_count = t->operand_count};
    memcpy(k->call.dim, t->dim, sizeof k->call.dim);
    memcpy(k->call.real, t->real, sizeof k->call.real);
    for (uint32_t i = 0; i < t->operand_count; i++) {
        const lzt_operand *u = &p->operand[t->first_operand + i];
        uint64_t *buffer = &l->buffer_of[u->object];
        bool descriptor = u->slot == 0 && t->op != LZT_OP_CAST; /* one for all programs */
        if (!*buffer && descriptor && l->has_descriptor) *buffer = (uint64_t)l->descriptor + 1;
        if (!*buffer) {
            l->buffer_bytes[l->buffer_count] = p->object[u->object].bytes;
            *buffer = ++l->buffer_count;
        }
        if (descriptor) {
            l->descriptor = (uint32_t)*buffer - 1;
            l->has_descriptor = true;
        }
        l->operand[l->operand_count++] = (lzt_probe_operand){.buffer = (uint32_t)*buffer - 1,
                                                             .slot = u->slot == LZT_SLOT_SCRATCH ? -1 : u->slot,
                                                             .offset = u->offset,
                                                             .bytes = u->bytes};
    }
}

static void add_host(list *l, const lzt_task *t, const lzt_measurement *m)
{
    static const lzt_probe_host_work works[LZT_HOST_COUNT] = {
        [LZT_HOST_GATHER] = LZT_PROBE_GATHER, [LZT_HOST_SCATTER] = LZT_PROBE_SCATTER,
        [LZT_HOST_ZERO] = LZT_PROBE_ZERO,     [LZT_HOST_ADD] = LZT_PROBE_ADD,
        [LZT_HOST_NORM] = LZT_PROBE_NORM,     [LZT_HOST_ADAMW] = LZT_PROBE_ADAMW};
    for (uint32_t i = 0; i < l->host_count; i++)
        if (l->host[i].entry.size == m->size && !strcmp(l->host[i].entry.name, m->name)) return;
    if (l->host_count == HOST_MAX) return; /* sizes between those that are there: interpolated */
    lzt_probe_host *h = &l->host[l->host_count++];
    *h = (lzt_probe_host){
        .entry = *m, .work = works[t->host_op], .dtype = t->dtype, .grad_dtype = t->grad_dtype, .elements = t->dim[0]};
    if (t->host_op == LZT_HOST_ADAMW || t->host_op == LZT_HOST_NORM) h->elements = t->dim[1];
    if (t->host_op == LZT_HOST_GATHER || t->host_op == LZT_HOST_SCATTER) {
        h->elements = 0;
        h->rows = l->price.tokens;
        h->columns = t->dim[0];
        h->table_rows = l->s->info->vocabulary;
    }
}

/* Operands lie in the kernels' order. */
static void bind_operands(list *l)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->kernel_count; at += l->kernel[i++].operand_count)
        l->kernel[i].operand = l->operand + at;
}

/* Rising, each once; what does not fit lies between others, or beyond. */
static void add_copy(list *l, uint64_t bytes)
{
    uint32_t at = 0;
    while (at < l->copy_count && l->copy[at] < bytes) at++;
    if ((at < l->copy_count && l->copy[at] == bytes) || l->copy_count == COPIES_MAX) return;
    memmove(l->copy + at + 1, l->copy + at, (l->copy_count - at) * sizeof *l->copy);
    l->copy[at] = bytes;
    l->copy_count++;
}

static lzt_status add_program(list *l, const lzt_program *program, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    size_t kernels = l->kernel_count + (size_t)p->task_count, operands = l->operand_count + (size_t)p->operand_count;
    size_t buffers = l->buffer_count + (size_t)p->object_count + 1;
    free(l->buffer_of);
    l->buffer_of = calloc((size_t)p->object_count + 1, sizeof *l->buffer_of);
    lzt_probe_operand *operand = realloc(l->operand, operands * sizeof *operand);
    if (operand) l->operand = operand;
    lzt_probe_kernel *kernel = realloc(l->kernel, kernels * sizeof *kernel);
    if (kernel) l->kernel = kernel;
    uint64_t *bytes = realloc(l->buffer_bytes, buffers * sizeof *bytes);
    if (bytes) l->buffer_bytes = bytes;
    if (!l->buffer_of || !operand || !kernel || !bytes)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a list of %zu tasks", kernels);
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        lzt_measurement m;
        if (!lzt_price_entry(p, t, &l->price, &m)) continue;
        if (t->op && !has_kernel(l, &m)) add_kernel(l, p, t, &m);
        if (t->host_op) add_host(l, t, &m);
        if (t->op || t->host_op || m.size <= 4096) continue;
        add_copy(l, m.size);
        if (m.size > l->longest_copy) l->longest_copy = m.size;
    }
    return LZT_OK;
}

static lzt_status compile_and_add(list *l, const lzt_plan *plan, const lzt_state_layout *layout, lzt_variant variant,
                                  bool update, lzt_error *err)
{
    lzt_program *program;
    lzt_step_options options = {.model = l->s->info,
                                .plan = plan,
                                .layout = layout,
                                .kern = l->s->kern,
                                .variant = variant,
                                .update = update,
                                .micro_batches = l->s->caps.micro_batches,
                                .frozen = l->s->frozen};
    lzt_status status = lzt_step_compile(&options, &program, err);
    if (status) return status;
    status = add_program(l, program, err);
    lzt_program_destroy(program);
    return status;
}

/* Loss chunks of other sizes: the planner may propose one (lazytrain/step_plan.h). */
static lzt_status add_chunks(list *l, lzt_plan *plan, lzt_error *err)
{
    static const uint64_t chunks[] = {32, 128, 512, 2048};
    const uint64_t most = CHUNK_LOGITS_BYTES / (4 * l->s->info->vocabulary);
    lzt_status status = LZT_OK;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && !status; i++) {
        lzt_state_layout *layout;
        if (chunks[i] >= plan->numerics.micro_batch_tokens || chunks[i] > most) break;
        plan->numerics.loss_chunk = chunks[i];
        status = lzt_state_layout_create(l->s->info, &plan->numerics, true, &layout, err);
        if (status) return status;
        status = compile_and_add(l, plan, layout, LZT_VARIANT_SINGLE, false, err);
        lzt_state_layout_destroy(layout);
    }
    return status;
}

/* The programs of a plan that does everything once: boundaries on the device and on the host. */
static lzt_status make(list *l, lzt_error *err)
{
    lzt_plan plan;
    lzt_state_layout *layout;
    bool many = l->s->caps.micro_batches > 1;
    static const uint64_t sizes[] = {4096, 65536, 1 << 20, 16 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) add_copy(l, sizes[i]);
    lzt_status status = lzt_plan_baseline(l->s->info, &l->s->numerics, 1, &plan, err);
    if (status) return status;
    if (plan.layer_count > 1) plan.boundary[1] = LZT_TIER_CPU;
    status = lzt_state_layout_create(l->s->info, &l->s->numerics, true, &layout, err);
    if (!status) {
        status = compile_and_add(l, &plan, layout, many ? LZT_VARIANT_FIRST : LZT_VARIANT_SINGLE, true, err);
        if (!status && many) status = compile_and_add(l, &plan, layout, LZT_VARIANT_LAST, false, err);
        lzt_state_layout_destroy(layout);
    }
    if (!status && !many) status = add_chunks(l, &plan, err);
    lzt_plan_fini(&plan);
    return status;
}

static uint64_t pair_copy(const list *l)
{
    uint64_t least = l->longest_copy > PAIR_COPY_MIN ? l->longest_copy : PAIR_COPY_MIN;
    return least < PAIR_COPY_MAX ? least : PAIR_COPY_MAX;
}

lzt_price_options lzt_session_price_options(const lzt_session *s, const lzt_profile *profile, uint64_t rows)
{
    return (lzt_price_options){.struct_bytes = sizeof(lzt_price_options),
                               .profile = profile,
                               .tokens = s->batcher ? lzt_batcher_capacity(s->batcher) : s->numerics.micro_batch_tokens,
                               .documents = rows,
                               .document_tokens = s->batcher ? lzt_batcher_document_tokens(s->batcher) : 0,
                               .model_directory = s->info->directory};
}

static void talk_part(void *arg, const char *line)
{
    (void)arg;
    lzt_talk("measuring: %s", line);
}

static lzt_status open_throttled(const lzt_session *s, lzt_dev **dev, lzt_error *err)
{
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    if (s->config) {
        options.h2d_bytes_per_s = options.d2h_bytes_per_s = s->config->memory.link_gbps * 1e9;
        options.compute_slowdown = s->config->memory.compute_slowdown;
    }
    return lzt_dev_cpu_create(&options, dev, err);
}

lzt_status lzt_probe_session(const lzt_session *s, uint64_t rows, double seconds, bool say, lzt_profile *profile,
                             lzt_error *err)
{
    list *l = calloc(1, sizeof *l);
    lzt_probe_options options = LZT_PROBE_OPTIONS_INIT;
    if (!l) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a probe's list");
    l->s = s;
    l->price = lzt_session_price_options(s, NULL, rows);
    if (l->price.document_tokens) { /* as many documents of equal length as make the packs' attention */
        rows = (l->price.tokens + l->price.document_tokens / 2) / l->price.document_tokens;
        l->price.documents = rows ? rows : 1;
        l->price.document_tokens = 0;
    }
    lzt_status status = make(l, err);
    if (!status) status = open_throttled(s, &options.dev, err);
    if (!status) {
        bind_operands(l);
        options.kern = s->kern;
        options.threads = (uint32_t)s->numerics.threads;
        options.tokens = l->price.tokens;
        options.documents = l->price.documents;
        options.kernel = l->kernel;
        options.kernel_count = l->kernel_count;
        options.buffer_bytes = l->buffer_bytes;
        options.buffer_count = l->buffer_count;
        options.descriptor = l->descriptor;
        options.host = l->host;
        options.host_count = l->host_count;
        options.copy_bytes = l->copy;
        options.copy_count = l->copy_count;
        options.pair_copy_bytes = pair_copy(l);
        options.seconds = seconds;
        options.say = say ? talk_part : NULL;
        snprintf(profile->device, sizeof profile->device, "%s", s->device_text);
        status = lzt_probe_run(&options, profile, err);
    }
    free(l->kernel);
    free(l->operand);
    free(l->buffer_bytes);
    free(l->buffer_of);
    free(l);
    return status;
}
