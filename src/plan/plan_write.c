/* Writes plan.json: a fixed key order and layout, so that plans can be compared line by line and edited by hand. */
#include "plan/plan_json.h"

#include "base/os.h"

#include <jansson.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A JSON string; bytes that are not UTF-8 become '?'. */
void lzt__plan_put_text(FILE *out, const char *text)
{
    char *quoted = NULL;
    json_t *json = json_string(text);
    if (json) quoted = json_dumps(json, JSON_ENCODE_ANY);
    if (quoted) {
        fputs(quoted, out);
    } else {
        fputc('"', out);
        for (; *text; text++) fputc(*text >= ' ' && *text != '"' && *text != '\\' ? *text : '?', out);
        fputc('"', out);
    }
    free(quoted);
    json_decref(json);
}

/* Picoseconds as milliseconds, to the last digit, without trailing zeros. */
void lzt__plan_put_ms(FILE *out, uint64_t ps)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%09" PRIu64, ps % 1000000000);
    size_t length = 9;
    while (length > 1 && digits[length - 1] == '0') length--;
    fprintf(out, "%" PRIu64 ".%.*s", ps / 1000000000, (int)length, digits);
}

/* Twelve numbers a line. */
void lzt__plan_put_array(FILE *out, const char *indent, const uint64_t *value, uint64_t count, bool is_ms)
{
    fputc('[', out);
    for (uint64_t i = 0; i < count; i++) {
        fputs(i ? "," : "", out);
        if (i % 12 == 0)
            fprintf(out, "\n%s", indent);
        else
            fputc(' ', out);
        if (is_ms)
            lzt__plan_put_ms(out, value[i]);
        else
            fprintf(out, "%" PRIu64, value[i]);
    }
    fputc(']', out);
}

static void put_index(FILE *out, uint64_t index, bool *first)
{
    fprintf(out, *first ? "%" PRIu64 : ", %" PRIu64, index);
    *first = false;
}

void lzt__plan_put_set(FILE *out, const bool *set, uint64_t count)
{
    bool first = true;
    fputc('[', out);
    for (uint64_t i = 0; i < count; i++)
        if (set[i]) put_index(out, i, &first);
    fputc(']', out);
}

void lzt__plan_put_at(FILE *out, const lzt_tier *at, uint64_t count, lzt_tier tier)
{
    bool first = true;
    fputc('[', out);
    for (uint64_t i = 0; i < count; i++)
        if (at[i] == tier) put_index(out, i, &first);
    fputc(']', out);
}

bool lzt__plan_any_at(const lzt_tier *at, uint64_t count, lzt_tier tier)
{
    for (uint64_t i = 0; i < count; i++)
        if (at[i] == tier) return true;
    return false;
}

/* The layers whose internals are at the tier. */
static void put_internals(FILE *out, const char *key, const lzt_plan *plan, lzt_tier tier)
{
    fprintf(out, ",\n  \"%s\": ", key);
    lzt__plan_put_at(out, plan->internals, plan->layer_count, tier);
}

static void put_numerics(FILE *out, const lzt_numerics *n)
{
    fprintf(out,
            "  \"numerics\": {\n"
            "    \"micro_batch_tokens\": %" PRIu64 ",\n    \"loss_chunk\": %" PRIu64 ",\n",
            n->micro_batch_tokens, n->loss_chunk);
    if (n->layer_splits > 1) fprintf(out, "    \"layer_splits\": %" PRIu64 ",\n", n->layer_splits);
    fprintf(out,
            "    \"attention_tile\": %" PRIu64 ",\n    \"threads\": %" PRIu64
            ",\n    \"dtype\": \"%s\",\n    \"grad_dtype\": \"%s\"\n  },\n",
            n->attention_tile, n->threads, lzt__plan_dtype_name(n->dtype), lzt__plan_dtype_name(n->grad_dtype));
}

static void put_state(FILE *out, const lzt_plan *plan)
{
    const uint64_t n = plan->layer_count;
    fprintf(out, "  \"state\": [");
    for (uint64_t i = 0; i < plan->state_count; i++) {
        const lzt_state_place *place = &plan->state[i];
        fprintf(out, "%s\n    {\"object\": \"%s\", \"layer\": ", i ? "," : "", lzt_state_name(place->object));
        if (place->unit >= 1 && place->unit <= n)
            fprintf(out, "%" PRIu64, place->unit - 1);
        else
            fprintf(out, "\"%s\"",
                    place->unit == 0       ? LZT__STATE_EMBEDDING
                    : place->unit == n + 1 ? LZT__STATE_FINAL_NORM
                                           : LZT__STATE_HEAD);
        fprintf(out, ", \"tier\": \"%s\"}", lzt_tier_name(place->tier));
    }
    fprintf(out, "%s],\n", plan->state_count ? "\n  " : "");
}

static void put_placement(FILE *out, const lzt_plan *plan)
{
    fprintf(out, "  \"boundaries\": [");
    for (uint64_t i = 0; i <= plan->layer_count; i++)
        fprintf(out, "%s\n    {\"index\": %" PRIu64 ", \"tier\": \"%s\"}", i ? "," : "", i,
                lzt_tier_name(plan->boundary[i]));
    fprintf(out, "\n  ]");
    put_internals(out, "internals", plan, LZT_TIER_GPU);
    for (int t = LZT_TIER_CPU; t <= LZT_TIER_NVME; t++)
        if (lzt__plan_any_at(plan->internals, plan->layer_count, (lzt_tier)t))
            put_internals(out, t == LZT_TIER_CPU ? "internals_cpu" : "internals_nvme", plan, (lzt_tier)t);
    fprintf(out, ",\n  \"weights\": ");
    lzt__plan_put_set(out, plan->weights, plan->layer_count);
    fprintf(out,
            ",\n  \"head_weights\": %s,\n  \"prefetch_layers\": %" PRIu64 ",\n  \"gradient_slots\": %" PRIu64 ",\n",
            plan->head_weights ? "true" : "false", plan->prefetch_layers, plan->gradient_slots);
    if (plan->internals_stages > 1) fprintf(out, "  \"internals_stages\": %" PRIu64 ",\n", plan->internals_stages);
    put_state(out, plan);
    fprintf(out,
            "  \"planned\": {\n    \"device_bytes\": %" PRIu64 ",\n    \"host_bytes\": %" PRIu64
            ",\n    \"nvme_bytes\": %" PRIu64 ",\n    \"layer_forwards\": %" PRIu64
            ",\n    \"weight_uploads\": %" PRIu64 "\n  }",
            plan->device_bytes, plan->host_bytes, plan->nvme_bytes, plan->layer_forwards, plan->weight_uploads);
}

static void put_source(FILE *out, const lzt_plan_source *s)
{
    fprintf(out,
            ",\n  \"source\": {\n    \"batch_size\": %" PRIu64 ",\n    \"max_seq_len\": %" PRIu64
            ",\n    \"dtype_bytes\": %" PRIu64 ",\n    \"peak_cap_gib\": %.17g,\n    \"nvme_enabled\": %s,\n"
            "    \"nvme_transfer_mode\": \"%s\",\n    \"nvme_pcie_path\": \"%s\",\n    \"optimizer_mode\": ",
            s->batch_size, s->max_seq_len, s->dtype_bytes, s->peak_cap_gib, s->nvme_enabled ? "true" : "false",
            s->cpu_staging ? "cpu_staging" : "gds", s->cpu_staging ? "gpu_cpu_nvme_staged" : "gpu_nvme_direct_dma");
    lzt__plan_put_text(out, s->optimizer_mode);
    fprintf(out,
            ",\n    \"optimizer_8bit_fraction\": %.17g,\n    \"optimizer_step_seconds\": %.17g,\n"
            "    \"reference_schedule\": ",
            s->optimizer_8bit_fraction, s->optimizer_step_s);
    lzt__plan_put_text(out, s->reference);
    if (s->world_size) {
        fprintf(out, ",\n    \"topology\": ");
        lzt__plan_put_text(out, s->topology);
        fprintf(out, ",\n    \"rank\": %" PRIu64 ",\n    \"world_size\": %" PRIu64, s->rank, s->world_size);
    }
    fprintf(out, "\n  }");
}

static void put_problem(FILE *out, const lzt_problem *p)
{
    const uint64_t n = p->layer_count;
    fprintf(out,
            ",\n  \"problem\": {\n    \"max_segment\": %" PRIu64 ",\n    \"budget_bytes\": {\"gpu\": %" PRIu64
            ", \"cpu\": %" PRIu64 ", \"nvme\": %" PRIu64 "},\n    \"bytes_per_s\": {",
            p->max_segment, p->budget_bytes[0], p->budget_bytes[1], p->budget_bytes[2]);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        fprintf(out, "%s\"%s\": %" PRIu64, pool ? ", " : "", lzt_pool_name((lzt_pool)pool), p->bytes_per_s[pool]);
    fprintf(out, "},\n    \"overlap_aware_pcie\": %s,\n    \"overlap_aware_nvme\": %s,\n    \"tiebreak_ms\": ",
            p->overlap_aware_pcie ? "true" : "false", p->overlap_aware_nvme ? "true" : "false");
    lzt__plan_put_ms(out, p->tiebreak_ps);
    fprintf(out, ",\n    \"penalty_ms\": ");
    lzt__plan_put_ms(out, p->penalty_ps);
    fprintf(out, ",\n    \"lock_edges\": %s,\n    \"locked_checkpoints\": ", p->lock_edges ? "true" : "false");
    lzt__plan_put_set(out, p->locked_checkpoint, n + 1);
    fprintf(out, ",\n    \"lock_gpu\": %s,\n    \"locked_gpu\": ", p->lock_gpu ? "true" : "false");
    lzt__plan_put_set(out, p->locked_gpu, n + 1);
    fprintf(out, ",\n    \"boundary_bytes\": ");
    lzt__plan_put_array(out, "      ", p->boundary_bytes, n + 1, false);
    fprintf(out, ",\n    \"recompute_ms\": ");
    lzt__plan_put_array(out, "      ", p->recompute_ps, n, true);
    fprintf(out, ",\n    \"window_bytes\": {");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        fprintf(out, "%s\n      \"%s\": ", pool ? "," : "", lzt_pool_name((lzt_pool)pool));
        lzt__plan_put_array(out, "        ", p->window_bytes[pool], n, false);
    }
    fprintf(out, "\n    },\n    \"mandatory_bytes\": {");
    for (int pool = 0; pool < 2; pool++) {
        fprintf(out, "%s\n      \"%s\": ", pool ? "," : "", lzt_pool_name((lzt_pool)pool));
        lzt__plan_put_array(out, "        ", p->mandatory_bytes[pool], n, false);
    }
    fprintf(out, "\n    }\n  }");
}

static uint64_t sum(const uint64_t *value, uint64_t count)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) total += value[i];
    return total;
}

/* What a reader would otherwise have to compute: the rows of the source's tables. */
static void put_derived(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    const lzt_problem *p = plan->problem;
    const uint64_t n = plan->layer_count;
    const uint64_t *count = e->count;
    fprintf(out,
            ",\n  \"counts\": {\"gpu\": %" PRIu64 ", \"cpu\": %" PRIu64 ", \"nvme\": %" PRIu64
            ", \"recomputed\": %" PRIu64 ", \"blocks\": %" PRIu64 "},\n  \"recompute_ms\": ",
            count[0], count[1], count[2], count[3], e->block_count);
    lzt__plan_put_ms(out, e->recompute_ps);
    fprintf(out, ",\n  \"exposed_ms\": {");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        fprintf(out, "%s\"%s\": ", pool ? ", " : "", lzt_pool_name((lzt_pool)pool));
        lzt__plan_put_ms(out, e->exposed_ps[pool]);
    }
    fprintf(out, "},\n  \"tiebreak_ms\": ");
    lzt__plan_put_ms(out, e->tiebreak_ps);
    fprintf(out, ",\n  \"penalty_ms\": ");
    lzt__plan_put_ms(out, e->penalty_ps);
    fprintf(out, ",\n  \"transfer_ms\": {");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        fprintf(out, "%s\"%s\": ", pool ? ", " : "", lzt_pool_name((lzt_pool)pool));
        lzt__plan_put_ms(out, lzt_pool_ps(p, (lzt_pool)pool, p->boundary_bytes[0]));
    }
    fprintf(out, "},\n  \"used_bytes\": {\"gpu\": %" PRIu64 ", \"cpu\": %" PRIu64 ", \"nvme\": %" PRIu64 "},\n",
            e->used_bytes[0], e->used_bytes[1], e->used_bytes[2]);
    fprintf(out, "  \"window_total_bytes\": {");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        fprintf(out, "%s\"%s\": %" PRIu64, pool ? ", " : "", lzt_pool_name((lzt_pool)pool),
                sum(p->window_bytes[pool], n));
    fprintf(out, "},\n  \"mandatory_total_bytes\": {\"d2h\": %" PRIu64 ", \"h2d\": %" PRIu64 "}",
            sum(p->mandatory_bytes[0], n), sum(p->mandatory_bytes[1], n));
}

static lzt_status put_solution(FILE *out, const lzt_plan *plan, lzt_error *err)
{
    lzt_evaluation e;
    double distance = (double)plan->objective_ps - (double)plan->bound_ps;
    double gap = distance > 0 ? distance / (double)plan->objective_ps : 0;
    if (plan->status) {
        fprintf(out, ",\n  \"status\": \"%s\"", lzt_plan_status_name(plan->status));
        if (plan->cut) fprintf(out, ",\n  \"limit\": \"%s\"", plan->cut == LZT_PLAN_CUT_WORK ? "work" : "clock");
        fprintf(out, ",\n  \"solver\": ");
        lzt__plan_put_text(out, plan->solver);
        fprintf(out, ",\n  \"objective_ms\": ");
        lzt__plan_put_ms(out, plan->objective_ps);
        fprintf(out, ",\n  \"bound_ms\": ");
        lzt__plan_put_ms(out, plan->bound_ps);
        fprintf(out, ",\n  \"gap\": %.9g,\n  \"solve_seconds\": %.9g", gap, plan->solve_seconds);
    }
    if (plan->step) return lzt__plan_put_step(out, plan->step, err);
    if (!plan->problem) return LZT_OK;
    lzt_status status = lzt_problem_check(plan->problem, plan->boundary, NULL, NULL, &e, err);
    if (status) return status;
    put_derived(out, plan, &e);
    put_source(out, &plan->source);
    put_problem(out, plan->problem);
    return LZT_OK;
}

lzt_status lzt_plan_print(const lzt_plan *plan, char **text, lzt_error *err)
{
    size_t size = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory to print a plan");
    fprintf(out, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"model\": {\n    \"name\": ", LZT__PLAN_FORMAT,
            LZT_PLAN_VERSION);
    lzt__plan_put_text(out, plan->model_name);
    fprintf(out, ",\n    \"fingerprint\": \"%016" PRIx64 "\",\n    \"layers\": %" PRIu64 "\n  },\n",
            plan->model_fingerprint, plan->layer_count);
    put_numerics(out, &plan->numerics);
    put_placement(out, plan);
    lzt_status status = put_solution(out, plan, err);
    fprintf(out, "\n}\n");
    bool failed = ferror(out);
    if (fclose(out) || failed)
        status = status ? status : lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory to print a plan");
    if (status) {
        free(*text);
        *text = NULL;
    }
    return status;
}

lzt_status lzt_plan_write(const char *path, const lzt_plan *plan, lzt_error *err)
{
    char *text = NULL;
    lzt_status status = lzt_plan_print(plan, &text, err);
    if (!status) status = lzt__os_write_file_atomic(lzt__os_posix(), path, text, strlen(text), err);
    free(text);
    return status;
}
