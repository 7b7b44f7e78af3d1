/* plan --topology: see plan_ranks.h. */
#include "cli/plan_ranks.h"

#include "base/units.h"
#include "cli/talk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_plan {
    lzt_rank_share share;
    lzt_source_options options;
    lzt_plan plan; /* zeroed: not solved */
    lzt_evaluation evaluation;
} rank_plan;

/* ---- solving ---- */

static lzt_status check_budgets(const lzt_ranks_options *r, const rank_plan *at, uint64_t rank, lzt_error *err)
{
    if (!at->share.bytes[LZT_STORE_CPU] && !r->stated.cpu_budget) {
        lzt_fail(err, LZT_ERR_USAGE, "--cpu-activation-budget-gb",
                 "is missing, and no socket of the topology states rank %" PRIu64 "'s bytes", rank);
        return lzt_hint(err, "say how many GiB of CPU memory a rank's activations may use; 0 is allowed");
    }
    if (at->options.enable_nvme_offload && !at->share.bytes[LZT_STORE_NVME] && !r->stated.nvme_budget) {
        lzt_fail(err, LZT_ERR_USAGE, "--nvme-activation-budget-gb",
                 "is missing, and no drive of the topology states rank %" PRIu64 "'s bytes", rank);
        return lzt_hint(err, "say how many GiB of the drive a rank's activations may use");
    }
    return LZT_OK;
}

static lzt_status no_plan(const lzt_solve_result *result, uint64_t rank, lzt_error *err)
{
    if (result->status == LZT_PLAN_LIMIT) {
        lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "rank %" PRIu64 ": the limit was reached after %.1f s without a plan",
                 rank, result->solve_seconds);
        return lzt_hint(err, "raise --time-limit-sec, or use --solver dp");
    }
    lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "rank %" PRIu64 ": %s", rank, result->reason);
    return result->way_out[0] ? lzt_hint(err, "%s", result->way_out) : LZT_ERR_NO_PLAN;
}

static lzt_status solve_rank(const lzt_ranks_options *r, const lzt_topology *t, const lzt_model_info *model,
                             const lzt_source_options *base, const lzt_solve_options *solve, uint64_t rank,
                             rank_plan *out, lzt_error *err)
{
    lzt_solve_result result;
    lzt_topology_share_of(t, (uint32_t)rank, &out->share);
    lzt_source_for_rank(base, &r->stated, &out->share, &out->options);
    lzt_status status = check_budgets(r, out, rank, err);
    if (!status && (status = lzt_source_plan(model, &out->options, solve, &out->plan, &result, err)) && err &&
        !err->hint[0])
        lzt_hint(err, "rank %" PRIu64 "'s rates and budgets are its shares of the pools in %s", rank, r->topology);
    if (status) return status;
    if (!out->plan.boundary) return no_plan(&result, rank, err);
    lzt_plan_source *s = &out->plan.source;
    snprintf(out->plan.model_name, sizeof out->plan.model_name, "%s", r->model_name);
    snprintf(s->topology, sizeof s->topology, "%s", r->topology);
    s->rank = rank;
    s->world_size = r->world_size;
    return lzt_plan_check(&out->plan, NULL, NULL, &out->evaluation, err);
}

/* ---- writing ---- */

/* "plan.json" and 2 become "plan.rank2.json". */
static void rank_path(const char *output, uint64_t rank, char *path, size_t size)
{
    const char *slash = strrchr(output, '/'), *dot = strrchr(output, '.');
    if (!dot || dot == output || (slash && dot <= slash + 1)) dot = output + strlen(output);
    snprintf(path, size, "%.*s.rank%" PRIu64 "%s", (int)(dot - output), output, rank, dot);
}

static lzt_status write_all(const lzt_ranks_options *r, const rank_plan *plans, lzt_error *err)
{
    char path[4096];
    lzt_status status = LZT_OK;
    for (uint64_t rank = 0; r->output && rank < r->world_size && !status; rank++) {
        rank_path(r->output, rank, path, sizeof path);
        status = lzt_plan_write(path, &plans[rank].plan, err);
    }
    return status;
}

/* ---- what is said ---- */

static void put_pools(const lzt_topology *t)
{
    char rate[LZT_UNITS_TEXT], share[LZT_UNITS_TEXT], bytes[LZT_UNITS_TEXT];
    printf("%-16s %-14s %12s %6s %12s %14s  ranks\n", "pool", "kind", "rate", "ranks", "a rank's", "bytes a rank");
    for (uint64_t i = 0; i < t->pool_count; i++) {
        const lzt_topology_pool *p = &t->pool[i];
        printf("%-16s %-14s %12s %6u %12s %14s  ", p->name, lzt_pool_kind_name(p->kind),
               lzt__units_format_decimal((double)p->bytes_per_s, "B/s", rate), p->rank_count,
               lzt__units_format_decimal((double)p->bytes_per_s / p->rank_count, "B/s", share),
               p->bytes ? lzt__units_format_bytes(p->bytes / p->rank_count, bytes) : "-");
        for (uint32_t k = 0; k < p->rank_count; k++) printf("%s%u", k ? "," : "", p->rank[k]);
        putchar('\n');
    }
}

static double exposed_ms(const lzt_evaluation *e)
{
    double ms = 0;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) ms += lzt_ms(e->exposed_ps[pool]);
    return ms;
}

static void put_ranks(const lzt_ranks_options *r, const lzt_topology *t, const rank_plan *plans)
{
    static const char *const way[LZT_WAY_COUNT] = {"down", "up", "write", "read"};
    printf("\n%4s %9s %9s %9s %9s %5s %5s %5s %9s %14s %11s  %s\n", "rank", "down GB/s", "up GB/s", "wr. GB/s",
           "read GB/s", "GPU", "CPU", "NVMe", "recompute", "objective ms", "exposed ms", "status");
    for (uint64_t rank = 0; rank < r->world_size; rank++) {
        const rank_plan *at = &plans[rank];
        const lzt_evaluation *e = &at->evaluation;
        const uint64_t *rate = at->plan.problem->bytes_per_s;
        printf("%4" PRIu64 " %9.4g %9.4g %9.4g %9.4g %5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %9" PRIu64
               " %14.5f %11.5g  %s\n",
               rank, (double)rate[0] / 1e9, (double)rate[1] / 1e9, (double)rate[2] / 1e9, (double)rate[3] / 1e9,
               e->count[0], e->count[1], e->count[2], e->count[3], lzt_ms(e->objective_ps), exposed_ms(e),
               lzt_plan_status_name(at->plan.status));
    }
    printf("\nnarrowest pool of each way\n");
    for (uint64_t rank = 0; rank < r->world_size; rank++) {
        printf("%4" PRIu64, rank);
        for (int w = 0; w < LZT_WAY_COUNT; w++) {
            int32_t pool = plans[rank].share.narrowest[w];
            printf("  %s: %s", way[w], pool < 0 ? "(option)" : t->pool[pool].name);
        }
        putchar('\n');
    }
}

static json_t *pools_json(const lzt_topology *t)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < t->pool_count; i++) {
        const lzt_topology_pool *p = &t->pool[i];
        json_t *ranks = json_array();
        for (uint32_t k = 0; k < p->rank_count; k++) json_array_append_new(ranks, json_integer(p->rank[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "name", p->name, "kind",
                                              lzt_pool_kind_name(p->kind), "bytes_per_second",
                                              (json_int_t)p->bytes_per_s, "bytes", (json_int_t)p->bytes,
                                              "share_bytes_per_second", (json_int_t)(p->bytes_per_s / p->rank_count),
                                              "share_bytes", (json_int_t)(p->bytes / p->rank_count), "ranks", ranks));
    }
    return list;
}

static lzt_status print_json(const lzt_ranks_options *r, const lzt_topology *t, const rank_plan *plans, lzt_error *err)
{
    json_t *list = json_array();
    lzt_status status = LZT_OK;
    for (uint64_t rank = 0; rank < r->world_size && !status; rank++) {
        char *text = NULL;
        status = lzt_plan_print(&plans[rank].plan, &text, err);
        if (!status) json_array_append_new(list, json_loads(text, 0, NULL));
        free(text);
    }
    if (!status)
        status = lzt_talk_json(json_pack("{s:s, s:I, s:o, s:O}", "topology", r->topology, "world_size",
                                         (json_int_t)r->world_size, "pools", pools_json(t), "ranks", list),
                               err);
    json_decref(list);
    return status;
}

lzt_status lzt_ranks_run(const lzt_ranks_options *r, const lzt_model_info *model, const lzt_source_options *base,
                         const lzt_solve_options *solve, lzt_error *err)
{
    lzt_topology topology;
    if (r->world_size < 1 || r->world_size > LZT_TOPOLOGY_RANKS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "--world-size", "is %" PRIu64 ", must be 1 to %" PRIu64, r->world_size,
                        LZT_TOPOLOGY_RANKS_MAX);
    lzt_status status = lzt_topology_read(r->topology, (uint32_t)r->world_size, &topology, err);
    if (status) return status;
    rank_plan *plans = calloc(r->world_size, sizeof *plans);
    if (!plans) status = lzt_fail(err, LZT_ERR_NO_MEMORY, "plan", "no memory for %" PRIu64 " ranks", r->world_size);
    for (uint64_t rank = 0; rank < r->world_size && !status; rank++)
        status = solve_rank(r, &topology, model, base, solve, rank, &plans[rank], err);
    if (!status) status = write_all(r, plans, err);
    if (!status && r->json) status = print_json(r, &topology, plans, err);
    if (!status && !r->json) {
        put_pools(&topology);
        put_ranks(r, &topology, plans);
    }
    for (uint64_t rank = 0; plans && rank < r->world_size; rank++) lzt_plan_fini(&plans[rank].plan);
    free(plans);
    lzt_topology_fini(&topology);
    return status;
}
