/* plan --sweep: see plan_sweep.h. */
#include "cli/plan_sweep.h"

#include "cli/talk.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1000, BAR = 48 };

typedef struct sweep_row {
    double budget_gib;
    lzt_solve_result result;
    lzt_evaluation evaluation;
} sweep_row;

lzt_status lzt_sweep_parse(const char *text, lzt_sweep *sweep, lzt_error *err)
{
    static const char *const tiers[] = {"cpu", "nvme", "gpu"};
    const char *equals = strchr(text, '=');
    char rest = 0;
    bool known = false;
    *sweep = (lzt_sweep){.step = 1};
    for (size_t i = 0; equals && i < 3; i++)
        if (strlen(tiers[i]) == (size_t)(equals - text) && !strncmp(text, tiers[i], strlen(tiers[i]))) {
            snprintf(sweep->tier, sizeof sweep->tier, "%s", tiers[i]);
            known = true;
        }
    int count = known ? sscanf(equals + 1, "%lf:%lf:%lf%c", &sweep->from, &sweep->to, &sweep->step, &rest) : 0;
    if (count == 2) { /* "8:15", and nothing behind it */
        int used = 0;
        sscanf(equals + 1, "%*f:%*f%n", &used);
        count = equals[1 + used] ? 0 : 3;
    }
    bool range = sweep->from >= 0 && sweep->to >= sweep->from && sweep->step > 0 && sweep->to < 1e9;
    if (count != 3 || !range || !((sweep->to - sweep->from) / sweep->step < ROWS_MAX)) {
        lzt_fail(err, LZT_ERR_USAGE, "--sweep", "\"%s\" is not TIER=FROM:TO[:STEP] with at most %d steps", text,
                 ROWS_MAX);
        return lzt_hint(err, "for example --sweep cpu=8:15, or --sweep nvme=0:32:4");
    }
    return LZT_OK;
}

static lzt_status solve_row(const lzt_sweep *sweep, const lzt_model_info *model, const lzt_source_options *base,
                            const lzt_solve_options *solve, sweep_row *row, lzt_error *err)
{
    lzt_source_options o = *base;
    lzt_plan plan;
    if (!strcmp(sweep->tier, "cpu")) o.cpu_activation_budget_gib = row->budget_gib;
    if (!strcmp(sweep->tier, "nvme")) o.nvme_activation_budget_gib = row->budget_gib;
    if (!strcmp(sweep->tier, "gpu")) o.peak_cap_gib = row->budget_gib;
    lzt_status status = lzt_source_plan(model, &o, solve, &plan, &row->result, err);
    if (!status && plan.boundary) status = lzt_plan_check(&plan, NULL, NULL, &row->evaluation, err);
    if (!status) lzt_plan_fini(&plan);
    return status;
}

static bool has_plan(const sweep_row *row)
{
    return row->result.status == LZT_PLAN_OPTIMAL || row->result.status == LZT_PLAN_FEASIBLE;
}

static void print_table(const lzt_sweep *sweep, const sweep_row *rows, int count)
{
    printf("%s GiB       GPU   CPU  NVMe  Recompute  Blocks    Objective  Exposed ms  Status\n", sweep->tier);
    for (int i = 0; i < count; i++) {
        const lzt_evaluation *e = &rows[i].evaluation;
        double exposed = 0;
        printf("%-11.6g", rows[i].budget_gib);
        if (!has_plan(&rows[i])) {
            printf("%s: %s\n", lzt_plan_status_name(rows[i].result.status), rows[i].result.reason);
            continue;
        }
        for (int pool = 0; pool < LZT_POOL_COUNT; pool++) exposed += lzt_ms(e->exposed_ps[pool]);
        printf("%5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %10" PRIu64 " %7" PRIu64 " %12.5f %11.5g  %s\n", e->count[0],
               e->count[1], e->count[2], e->count[3], e->block_count, lzt_ms(e->objective_ps), exposed,
               lzt_plan_status_name(rows[i].result.status));
    }
}

/* Bars of the boundaries by tier: G, C, N, and '.' for recomputed. */
static void print_plot(const lzt_sweep *sweep, const sweep_row *rows, int count)
{
    printf("\nboundaries by tier (G gpu, C cpu, N nvme, . recomputed)\n");
    for (int i = 0; i < count; i++) {
        const lzt_evaluation *e = &rows[i].evaluation;
        uint64_t total = e->count[0] + e->count[1] + e->count[2] + e->count[3], upto = 0;
        int drawn = 0;
        printf("%4s %-9.6g |", sweep->tier, rows[i].budget_gib);
        for (int t = 0; total && t < LZT_TIER_COUNT; t++) {
            upto += e->count[t];
            for (; drawn < (int)(upto * BAR / total); drawn++) putchar("GCN."[t]);
        }
        printf("%*s|\n", BAR - drawn, "");
    }
}

static json_t *row_json(const sweep_row *row)
{
    const lzt_evaluation *e = &row->evaluation;
    json_t *out = json_pack("{s:f, s:s, s:f}", "budget_gib", row->budget_gib, "status",
                            lzt_plan_status_name(row->result.status), "solve_seconds", row->result.solve_seconds);
    if (!has_plan(row)) return out;
    json_object_update_new(out,
                           json_pack("{s:f, s:f, s:{s:I, s:I, s:I, s:I, s:I}}", "objective_ms", lzt_ms(e->objective_ps),
                                     "bound_ms", lzt_ms(row->result.bound_ps), "counts", "gpu", (json_int_t)e->count[0],
                                     "cpu", (json_int_t)e->count[1], "nvme", (json_int_t)e->count[2], "recomputed",
                                     (json_int_t)e->count[3], "blocks", (json_int_t)e->block_count));
    return out;
}

lzt_status lzt_sweep_run(const lzt_sweep *sweep, const lzt_model_info *model, const lzt_source_options *base,
                         const lzt_solve_options *solve, bool json, lzt_error *err)
{
    int count = (int)floor((sweep->to - sweep->from) / sweep->step + 1e-9) + 1;
    sweep_row *rows = calloc((size_t)count, sizeof *rows);
    lzt_status status = rows ? LZT_OK : lzt_fail(err, LZT_ERR_NO_MEMORY, "--sweep", "no memory for %d rows", count);
    for (int i = 0; !status && i < count; i++) {
        rows[i].budget_gib = sweep->from + i * sweep->step;
        status = solve_row(sweep, model, base, solve, &rows[i], err);
    }
    if (!status && json) {
        json_t *list = json_array();
        for (int i = 0; i < count; i++) json_array_append_new(list, row_json(&rows[i]));
        status = lzt_talk_json(json_pack("{s:s, s:o}", "tier", sweep->tier, "rows", list), err);
    } else if (!status) {
        print_table(sweep, rows, count);
        print_plot(sweep, rows, count);
    }
    free(rows);
    return status;
}
