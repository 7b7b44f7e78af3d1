/* How many sequences generation decodes at once: see lzt_cache_fit in lazytrain/auto_plan.h.
 *
 * A candidate's memory is the peak of its compiled programs. Four ways are tried: prompts fill a micro-batch or come
 * one by one, and weights that the plan keeps stay between programs or are uploaded again. The way with the most
 * sequences wins, the earlier of equals.
 */
#include "lazytrain/auto_plan.h"

#include <assert.h>
#include <string.h>

typedef struct fitting {
    const lzt_auto_options *options;
    const lzt_plan *plan;
    const lzt_state_layout *layout;
} fitting;

static lzt_status measure(const fitting *f, const lzt_cache_shape *shape, uint64_t peak_bytes[LZT_SPACE_COUNT],
                          lzt_error *err)
{
    static const lzt_variant variants[] = {LZT_VARIANT_PREFILL, LZT_VARIANT_DECODE};
    lzt_status status = LZT_OK;
    memset(peak_bytes, 0, LZT_SPACE_COUNT * sizeof *peak_bytes);
    for (int i = 0; i < 2 && !status; i++) {
        lzt_program *program;
        lzt_step_options step = {.model = f->options->model,
                                 .plan = f->plan,
                                 .layout = f->layout,
                                 .kern = f->options->kern,
                                 .variant = variants[i],
                                 .micro_batches = f->options->micro_batches,
                                 .cache = *shape};
        status = lzt_step_compile(&step, &program, err);
        if (status) break;
        const lzt_program_info *info = lzt_program_get_info(program);
        for (int s = 0; s < LZT_SPACE_COUNT; s++)
            if (info->peak_bytes[s] > peak_bytes[s]) peak_bytes[s] = info->peak_bytes[s];
        lzt_program_destroy(program);
    }
    return status;
}

static lzt_status fits(const fitting *f, const lzt_cache_shape *shape, bool *yes, lzt_error *err)
{
    uint64_t peak[LZT_SPACE_COUNT];
    const uint64_t cap[LZT_SPACE_COUNT] = {f->options->device_cap_bytes, f->options->host_cap_bytes};
    lzt_status status = measure(f, shape, peak, err);
    *yes = !status;
    for (int s = 0; s < LZT_SPACE_COUNT && !status; s++)
        if (cap[s] && peak[s] > cap[s]) *yes = false;
    return status;
}

/* The most sequences, up to shape->sequences, with which the shape fits; 0: not even one. */
static lzt_status enlarge(const fitting *f, lzt_cache_shape *shape, lzt_error *err)
{
    bool yes;
    uint64_t low = 0, high = shape->sequences;
    lzt_status status = fits(f, shape, &yes, err);
    if (status || yes) return status;
    while (high - low > 1) {
        shape->sequences = (low + high) / 2;
        status = fits(f, shape, &yes, err);
        if (status) return status;
        *(yes ? &low : &high) = shape->sequences;
    }
    shape->sequences = low;
    return LZT_OK;
}

static lzt_status no_room(const fitting *f, const lzt_cache_shape *least, lzt_error *err)
{
    static const char *const keys[LZT_SPACE_COUNT] = {"device_cap", "host_cap"};
    uint64_t peak[LZT_SPACE_COUNT];
    const uint64_t cap[LZT_SPACE_COUNT] = {f->options->device_cap_bytes, f->options->host_cap_bytes};
    lzt_status status = measure(f, least, peak, err);
    if (status) return status;
    int s = cap[LZT_SPACE_DEVICE] && peak[LZT_SPACE_DEVICE] > cap[LZT_SPACE_DEVICE] ? LZT_SPACE_DEVICE : LZT_SPACE_HOST;
    lzt_fail(err, LZT_ERR_NO_PLAN, "memory",
             "%s: needs at least %llu bytes to generate one sequence of %llu tokens, %llu more than are allowed",
             keys[s], (unsigned long long)peak[s], (unsigned long long)least->length,
             (unsigned long long)(peak[s] - cap[s]));
    return lzt_hint(err, "raise memory.%s, or generate fewer tokens", keys[s]);
}

lzt_status lzt_cache_fit(const lzt_auto_options *options, const lzt_plan *plan, const lzt_cache_shape *wanted,
                         lzt_cache_shape *shape, lzt_error *err)
{
    uint64_t most = plan->numerics.micro_batch_tokens;
    lzt_state_layout *layout;
    assert(wanted->sequences && wanted->length && wanted->prompt_tokens && wanted->prompt_tokens <= most);
    lzt_status status = lzt_state_layout_create(options->model, &plan->numerics, options->training, &layout, err);
    if (status) return status;
    fitting f = {options, plan, layout};
    uint64_t all = wanted->sequences < most ? wanted->sequences : most; /* prompts of all sequences at once */
    uint64_t room = all > most / wanted->prompt_tokens ? most : all * wanted->prompt_tokens;
    *shape = (lzt_cache_shape){0};
    for (int way = 0; way < 4 && shape->sequences < all && !status; way++) {
        lzt_cache_shape s = {.sequences = all,
                             .length = wanted->length,
                             .prompt_tokens = way % 2 ? wanted->prompt_tokens : room,
                             .keep_weights = way < 2};
        status = enlarge(&f, &s, err);
        if (!status && s.sequences > shape->sequences) *shape = s;
    }
    lzt_cache_shape least = {1, wanted->length, wanted->prompt_tokens, false};
    if (!status && !shape->sequences) status = no_room(&f, &least, err);
    lzt_state_layout_destroy(layout);
    return status;
}
