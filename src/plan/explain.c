/* A plan as text: the source's result table, and what a person needs to check a plan by hand. */
#include "plan/plan_json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double gib(uint64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static double gbps(uint64_t bytes_per_s)
{
    return (double)bytes_per_s / 1e9;
}

static uint64_t sum(const uint64_t *value, uint64_t count)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) total += value[i];
    return total;
}

__attribute__((format(printf, 3, 4))) static void row(FILE *out, const char *name, const char *fmt, ...)
{
    va_list args;
    fprintf(out, "%-38s ", name);
    va_start(args, fmt);
    vfprintf(out, fmt, args);
    va_end(args);
    fputc('\n', out);
}

/* A row that lists what lies at the tier. */
static void put_at(FILE *out, const char *name, const lzt_tier *at, uint64_t count, lzt_tier tier)
{
    fprintf(out, "%-38s ", name);
    lzt__plan_put_at(out, at, count, tier);
    fputc('\n', out);
}

static void put_rank(FILE *out, const lzt_plan_source *s)
{
    if (!s->world_size) return;
    row(out, "Rank", "%" PRIu64 " of %" PRIu64 ", its share of the pools of %s", s->rank, s->world_size, s->topology);
}

static void put_inputs(FILE *out, const lzt_plan *plan)
{
    const lzt_problem *p = plan->problem;
    const lzt_plan_source *s = &plan->source;
    row(out, "Model", "%s", plan->model_name);
    row(out, "Batch / Seq len", "%" PRIu64 " / %" PRIu64, s->batch_size, s->max_seq_len);
    row(out, "Num layers", "%" PRIu64, plan->layer_count);
    row(out, "Max segment", "%" PRIu64 " layers", p->max_segment);
    row(out, "Activation of one boundary", "%.6f GiB", gib(p->boundary_bytes[0]));
    row(out, "Modeled GPU peak cap", "%.2f GiB", s->peak_cap_gib);
    row(out, "GPU activation budget", "%.3f GiB", gib(p->budget_bytes[LZT_TIER_GPU]));
    row(out, "CPU activation budget", "%.3f GiB", gib(p->budget_bytes[LZT_TIER_CPU]));
    row(out, "NVMe activation budget", "%.3f GiB%s", gib(p->budget_bytes[LZT_TIER_NVME]),
        s->nvme_enabled ? "" : " (not enabled)");
    row(out, "NVMe transfer mode", "%s", s->cpu_staging ? "cpu_staging" : "gds");
    row(out, "NVMe PCIe path", "%s", s->cpu_staging ? "gpu_cpu_nvme_staged" : "gpu_nvme_direct_dma");
    row(out, "PCIe H2D/D2H bandwidth", "%.4g GB/s up / %.4g GB/s down", gbps(p->bytes_per_s[LZT_POOL_H2D]),
        gbps(p->bytes_per_s[LZT_POOL_D2H]));
    row(out, "NVMe read/write bandwidth", "%.4g GB/s read / %.4g GB/s write", gbps(p->bytes_per_s[LZT_POOL_NVME_READ]),
        gbps(p->bytes_per_s[LZT_POOL_NVME_WRITE]));
    put_rank(out, s);
    row(out, "Overlap-aware offload / NVMe", "%s / %s", p->overlap_aware_pcie ? "on" : "off",
        p->overlap_aware_nvme ? "on" : "off");
    if (s->reference[0])
        row(out, "Reference schedule", "%s (%s%s%s)", s->reference, p->lock_edges ? "edges" : "",
            p->lock_edges && p->lock_gpu ? ", " : "",
            p->lock_gpu     ? "gpu checkpoints locked"
            : p->lock_edges ? " locked"
                            : "no locks");
}

static void put_result(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    const lzt_problem *p = plan->problem;
    const uint64_t n = plan->layer_count;
    uint64_t pcie_ps = e->exposed_ps[LZT_POOL_D2H] + e->exposed_ps[LZT_POOL_H2D];
    uint64_t nvme_ps = e->exposed_ps[LZT_POOL_NVME_WRITE] + e->exposed_ps[LZT_POOL_NVME_READ];
    double unused = gib(p->budget_bytes[LZT_TIER_GPU]) - gib(e->used_bytes[LZT_TIER_GPU]);
    row(out, "Status", "%s (%s, %.3f ms)", lzt_plan_status_name(plan->status), plan->solver, plan->solve_seconds * 1e3);
    row(out, "Objective", "%.5f ms", lzt_ms(e->objective_ps));
    row(out, "Bound", "%.5f ms", lzt_ms(plan->bound_ps));
    row(out, "Modeled GPU peak", "%.2f GiB", plan->source.peak_cap_gib - unused);
    row(out, "Num checkpoints", "%" PRIu64, n + 1 - e->count[LZT_TIER_RECOMPUTE]);
    row(out, "GPU checkpoints", "%" PRIu64, e->count[LZT_TIER_GPU]);
    row(out, "CPU offload checkpoints", "%" PRIu64, e->count[LZT_TIER_CPU]);
    row(out, "NVMe offload checkpoints", "%" PRIu64, e->count[LZT_TIER_NVME]);
    row(out, "Recomputed boundaries", "%" PRIu64, e->count[LZT_TIER_RECOMPUTE]);
    row(out, "Num recompute blocks", "%" PRIu64, e->block_count);
    row(out, "Recompute", "%.5f ms", lzt_ms(e->recompute_ps));
    row(out, "Exposed PCIe activation comm", "%.5g ms (%.5g down, %.5g up)", lzt_ms(pcie_ps),
        lzt_ms(e->exposed_ps[LZT_POOL_D2H]), lzt_ms(e->exposed_ps[LZT_POOL_H2D]));
    row(out, "Exposed NVMe comm", "%.5g ms (%.5g write, %.5g read)", lzt_ms(nvme_ps),
        lzt_ms(e->exposed_ps[LZT_POOL_NVME_WRITE]), lzt_ms(e->exposed_ps[LZT_POOL_NVME_READ]));
    row(out, "Hidden NVMe tie-breaker", "%.5g ms * %" PRIu64 " checkpoints = %.5g ms", lzt_ms(p->tiebreak_ps),
        e->count[LZT_TIER_NVME], lzt_ms(e->tiebreak_ps));
    row(out, "Checkpoint penalty", "%.5g ms * %" PRIu64 " checkpoints = %.5g ms", lzt_ms(p->penalty_ps),
        n + 1 - e->count[LZT_TIER_RECOMPUTE], lzt_ms(e->penalty_ps));
}

static void put_traffic(FILE *out, const lzt_plan *plan)
{
    static const char *const route[LZT_POOL_COUNT] = {"GPU -> CPU", "CPU -> GPU", "GPU -> NVMe", "NVMe -> GPU"};
    static const char *const window[LZT_POOL_COUNT] = {"D2H", "H2D", "NVMe write", "NVMe read"};
    const lzt_problem *p = plan->problem;
    const uint64_t n = plan->layer_count;
    char name[64];
    row(out, "Mandatory param H2D window total", "%.3f GiB", gib(sum(p->mandatory_bytes[LZT_POOL_H2D], n)));
    row(out, "Mandatory grad D2H window total", "%.3f GiB", gib(sum(p->mandatory_bytes[LZT_POOL_D2H], n)));
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        snprintf(name, sizeof name, "One activation %s", route[pool]);
        row(out, name, "%.1f ms", lzt_ms(lzt_pool_ps(p, (lzt_pool)pool, p->boundary_bytes[0])));
    }
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        snprintf(name, sizeof name, "Window capacity total %s", window[pool]);
        row(out, name, "%.2f GiB", gib(sum(p->window_bytes[pool], n)));
    }
    if (plan->source.optimizer_mode[0]) {
        row(out, "Optimizer mode", "%s", plan->source.optimizer_mode);
        row(out, "Optimizer 8-bit fraction", "%g", plan->source.optimizer_8bit_fraction);
        row(out, "Optimizer predicted step", "%.2f s (a note; not in the objective)", plan->source.optimizer_step_s);
    }
}

static void put_lists(FILE *out, const lzt_plan *plan)
{
    put_at(out, "GPU boundaries", plan->boundary, plan->layer_count + 1, LZT_TIER_GPU);
    put_at(out, "CPU boundaries", plan->boundary, plan->layer_count + 1, LZT_TIER_CPU);
    put_at(out, "NVMe boundaries", plan->boundary, plan->layer_count + 1, LZT_TIER_NVME);
    put_at(out, "Recompute boundaries", plan->boundary, plan->layer_count + 1, LZT_TIER_RECOMPUTE);
}

static void put_budgets(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    fprintf(out, "\nPools: what is held, in bytes\n  %-6s %16s %16s %16s\n", "tier", "used", "budget", "left");
    for (int t = 0; t < 3; t++)
        fprintf(out, "  %-6s %16" PRIu64 " %16" PRIu64 " %16" PRId64 "\n", lzt_tier_name((lzt_tier)t), e->used_bytes[t],
                plan->problem->budget_bytes[t], (int64_t)plan->problem->budget_bytes[t] - (int64_t)e->used_bytes[t]);
}

/* One line a window: per pool mandatory + activations of capacity, and what is exposed. */
static lzt_status put_windows(FILE *out, const lzt_plan *plan, lzt_error *err)
{
    const lzt_problem *p = plan->problem;
    const uint64_t n = plan->layer_count;
    lzt_window *window = malloc(LZT_POOL_COUNT * n * sizeof *window);
    if (!window) return lzt_fail(err, LZT_ERR_NO_MEMORY, "explain", "no memory for %" PRIu64 " windows", n);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        lzt_problem_windows(p, plan->boundary, (lzt_pool)pool, window + (uint64_t)pool * n);
    fprintf(out,
            "\nWindows: mandatory + activations / capacity in MiB, transfers as early as they can"
            " (+x: exposed)\n  %5s %9s %9s",
            "layer", "ms", "input");
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) fprintf(out, " %24s", lzt_pool_name((lzt_pool)pool));
    fputc('\n', out);
    for (uint64_t w = 0; w < n; w++) {
        fprintf(out, "  %5" PRIu64 " %9.3f %9s", w, lzt_ms(p->recompute_ps[w]), lzt_tier_name(plan->boundary[w]));
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
            const lzt_window *at = &window[(uint64_t)pool * n + w];
            char text[96], exposed[32] = "";
            if (at->exposed_bytes) snprintf(exposed, sizeof exposed, " +%.0f", mib(at->exposed_bytes));
            snprintf(text, sizeof text, "%.0f + %.0f / %.0f%s", mib(at->mandatory_bytes), mib(at->activation_bytes),
                     mib(at->capacity_bytes), exposed);
            fprintf(out, " %24s", text);
        }
        fputc('\n', out);
    }
    free(window);
    return LZT_OK;
}

static void put_blocks(FILE *out, const lzt_plan *plan)
{
    uint64_t start = 0;
    fprintf(out, "\nBlocks that run layers again in backward (start..end: layers, ms)\n");
    for (uint64_t end = 1; end <= plan->layer_count; end++) {
        if (plan->boundary[end] == LZT_TIER_RECOMPUTE) continue;
        if (end - start > 1) {
            fprintf(out, "  %" PRIu64 "..%" PRIu64 ": %" PRIu64, start, end, end - 1 - start);
            if (plan->problem)
                fprintf(out, ", %.3f", lzt_ms(sum(plan->problem->recompute_ps + start, end - 1 - start)));
            fputc('\n', out);
        }
        start = end;
    }
}

/* A plan that the step compiler measured. */
static void put_step_plan(FILE *out, const lzt_plan *plan, const lzt_evaluation *e)
{
    const lzt_numerics *n = &plan->numerics;
    row(out, "Model", "%s", plan->model_name);
    row(out, "Fingerprint", "%016" PRIx64, plan->model_fingerprint);
    row(out, "Num layers", "%" PRIu64, plan->layer_count);
    row(out, "Micro-batch tokens / loss chunk", "%" PRIu64 " / %" PRIu64, n->micro_batch_tokens, n->loss_chunk);
    if (n->layer_splits > 1) row(out, "Parts of a micro-batch in a layer", "%" PRIu64, n->layer_splits);
    row(out, "Dtype / gradients", "%s / %s", lzt_dtype_name(n->dtype), lzt_dtype_name(n->grad_dtype));
    row(out, "Boundaries gpu / cpu / nvme / recompute", "%" PRIu64 " / %" PRIu64 " / %" PRIu64 " / %" PRIu64,
        e->count[0], e->count[1], e->count[2], e->count[3]);
    put_lists(out, plan);
    put_at(out, "Layers whose internals stay", plan->internals, plan->layer_count, LZT_TIER_GPU);
    for (int t = LZT_TIER_CPU; t <= LZT_TIER_NVME; t++)
        if (lzt__plan_any_at(plan->internals, plan->layer_count, (lzt_tier)t))
            put_at(out,
                   t == LZT_TIER_CPU ? "Layers whose internals go to the host" : "Layers whose internals go to nvme",
                   plan->internals, plan->layer_count, (lzt_tier)t);
    fprintf(out, "%-38s ", "Layers whose weights stay");
    lzt__plan_put_set(out, plan->weights, plan->layer_count);
    fputc('\n', out);
    row(out, "Head weights stay", "%s", plan->head_weights ? "yes" : "no");
    row(out, "Prefetched layers / gradient slots", "%" PRIu64 " / %" PRIu64, plan->prefetch_layers,
        plan->gradient_slots);
    if (plan->internals_stages > 1) row(out, "Stages that internals move under", "%" PRIu64, plan->internals_stages);
    row(out, "Planned device bytes", "%" PRIu64, plan->device_bytes);
    row(out, "Planned host bytes", "%" PRIu64, plan->host_bytes);
    row(out, "Planned NVMe bytes", "%" PRIu64, plan->nvme_bytes);
    row(out, "Layer forwards a micro-batch", "%" PRIu64, lzt_plan_layer_forwards(plan));
    put_blocks(out, plan);
    if (plan->step) lzt__plan_explain_step(out, plan);
}

static lzt_status put_source_plan(FILE *out, const lzt_plan *plan, const lzt_evaluation *e, bool whole, lzt_error *err)
{
    put_inputs(out, plan);
    put_result(out, plan, e);
    put_traffic(out, plan);
    put_lists(out, plan);
    if (!whole) return LZT_OK;
    put_budgets(out, plan, e);
    put_blocks(out, plan);
    return put_windows(out, plan, err);
}

static lzt_status print(const lzt_plan *plan, bool whole, char **text, lzt_error *err)
{
    size_t size = 0;
    lzt_evaluation e;
    *text = NULL;
    lzt_status status = lzt_plan_check(plan, NULL, NULL, &e, err);
    if (status) return status;
    FILE *out = open_memstream(text, &size);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, "explain", "no memory to print a plan");
    if (plan->problem)
        status = put_source_plan(out, plan, &e, whole, err);
    else
        put_step_plan(out, plan, &e);
    if (fclose(out) && !status) status = lzt_fail(err, LZT_ERR_NO_MEMORY, "explain", "no memory to print a plan");
    if (status) {
        free(*text);
        *text = NULL;
    }
    return status;
}

lzt_status lzt_plan_table(const lzt_plan *plan, char **text, lzt_error *err)
{
    return print(plan, false, text, err);
}

lzt_status lzt_plan_explain(const lzt_plan *plan, char **text, lzt_error *err)
{
    return print(plan, true, text, err);
}
