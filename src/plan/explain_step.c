/* A plan of the real step as sums that a person can check: where the objective comes from, what each memory holds, and
 * how every window's work compares with the traffic that runs in it. */
#include "plan/plan_json.h"

#include <inttypes.h>

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void put_result(FILE *out, const lzt_plan *plan, const lzt_step_sum *sum)
{
    const lzt_step_model *m = plan->step;
    fprintf(out, "\nThe step: simulated from %s\n", m->machine[0] ? m->machine : "an unnamed profile");
    fprintf(out, "  %-36s %12.3f ms (%s, %s, %.3f s to find)\n", "predicted step", lzt_ms(plan->objective_ps),
            lzt_plan_status_name(plan->status), plan->solver, plan->solve_seconds);
    if (plan->cut)
        fprintf(out, "  %-36s %s\n", "the search ended before its list did",
                plan->cut == LZT_PLAN_CUT_WORK ? "at its limit of work, on any machine at this candidate"
                                               : "by the clock: another run may find another plan");
    fprintf(out, "  %-36s %12.3f ms: no plan under these caps takes less\n", "bound (surrogate's)",
            lzt_ms(plan->bound_ps));
    fprintf(out, "  %-36s %12.3f ms: the sums below\n", "this plan's own bound", lzt_ms(sum->bound_ps));
    double rest = lzt_ms(plan->objective_ps);
    fprintf(out, "  %-36s", "compute at work, waiting for lanes");
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) {
        fprintf(out, "%s %s %.3f", lane ? "," : "", lzt_step_lane_name((lzt_step_lane)lane), lzt_ms(m->waits_ps[lane]));
        rest -= lzt_ms(m->waits_ps[lane]);
    }
    fprintf(out, ", other %.3f\n", rest);
}

static void put_sums(FILE *out, const lzt_plan *plan, const lzt_step_sum *sum)
{
    const lzt_step_model *m = plan->step;
    fprintf(out, "\nLanes: ms of work in each window (of it, what no placement changes)\n  %-10s", "window");
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++)
        fprintf(out, " %26s", lzt_step_lane_name((lzt_step_lane)lane));
    fputc('\n', out);
    for (int w = 0; w < LZT_STEP_WINDOW_COUNT; w++) {
        fprintf(out, "  %-10s", lzt_step_window_name((lzt_step_window)w));
        for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++)
            fprintf(out, " %14.3f (%9.3f)", lzt_ms(sum->window_ps[w][lane]), lzt_ms(m->fixed_ps[w][lane]));
        fputc('\n', out);
    }
    fprintf(out, "  %-10s", "step");
    for (int lane = 0; lane < LZT_STEP_LANE_COUNT; lane++) fprintf(out, " %14.3f %11s", lzt_ms(sum->lane_ps[lane]), "");
    fprintf(
        out,
        "\n  bound = the longest lane, or the longest before the loss (forward's compute + %.3f ms of waiting, h2d, "
        "cpu_optimizer)\n          + the longest after it (backward's compute + %.3f ms, d2h, cpu_optimizer)",
        lzt_ms(m->edge_ps[LZT_STEP_FORWARD]), lzt_ms(m->edge_ps[LZT_STEP_BACKWARD]));
    fprintf(out, "\n  each layer's share is below, times %" PRIu64 " micro-batch%s\n", m->micro_batches,
            m->micro_batches > 1 ? "es" : "");
}

static void put_memory(FILE *out, const lzt_plan *plan, const lzt_step_sum *sum)
{
    static const char *const names[LZT_STEP_MEMORY_COUNT] = {"device", "host"};
    const uint64_t planned[LZT_STEP_MEMORY_COUNT] = {plan->device_bytes, plan->host_bytes};
    const lzt_step_model *m = plan->step;
    fprintf(out,
            "\nMemory, in bytes: what the head's moment needs + what is placed <= the program's peak <= the cap\n");
    fprintf(out, "  %-7s %16s %16s %16s %16s %16s\n", "", "floor", "placed", "peak", "cap", "left");
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++) {
        fprintf(out, "  %-7s %16" PRIu64 " %16" PRIu64 " %16" PRIu64, names[k], m->floor_bytes[k],
                sum->least_bytes[k] - m->floor_bytes[k], planned[k]);
        if (m->cap_bytes[k])
            fprintf(out, " %16" PRIu64 " %16" PRId64 "\n", m->cap_bytes[k], (int64_t)(m->cap_bytes[k] - planned[k]));
        else
            fprintf(out, " %16s\n", "none");
    }
}

static const char *boundary_words(const lzt_plan *plan, uint64_t i)
{
    if (plan->boundary[i] != LZT_TIER_RECOMPUTE) return lzt_tier_name(plan->boundary[i]);
    return i ? "recompute" : "from ids";
}

static const char *internals_word(lzt_tier tier)
{
    static const char *const word[LZT_TIER_COUNT] = {"stay", "host", "nvme", "go"};
    return word[tier];
}

/* A line a layer: its window in forward and in backward, and the traffic of each. */
static void put_layers(FILE *out, const lzt_plan *plan)
{
    const lzt_step_model *m = plan->step;
    fprintf(out,
            "\nWindows of a micro-batch: compute ms | weights up, boundary, internals and gradients down or up, ms\n");
    fprintf(out, "  %5s %-10s %10s %8s %8s | %-9s %10s %10s %8s %8s %8s | %10s %10s\n", "layer", "input", "forward",
            "up", "down", "internals", "again", "backward", "up", "return", "down", "internals", "weights");
    for (uint64_t l = 0; l < plan->layer_count; l++) {
        const lzt_step_layer *x = &m->layer[l];
        bool moved = plan->boundary[l] == LZT_TIER_CPU || plan->boundary[l] == LZT_TIER_NVME;
        bool back = moved || (!l && plan->boundary[l] == LZT_TIER_RECOMPUTE);
        bool leaves = l + 1 < plan->layer_count && plan->boundary[l + 1] == LZT_TIER_CPU;
        bool away = plan->internals[l] == LZT_TIER_CPU || plan->internals[l] == LZT_TIER_NVME;
        uint64_t again = plan->internals[l] == LZT_TIER_RECOMPUTE ? x->again_ps : 0;
        uint64_t down = (leaves ? m->boundary_down_ps : 0) + (away ? x->internals_down_ps : 0);
        uint64_t back_ps = (back ? m->boundary_up_ps : 0) + (away ? x->internals_up_ps : 0);
        if (l + 1 < plan->layer_count && plan->boundary[l + 1] == LZT_TIER_RECOMPUTE) again += x->recompute_ps;
        fprintf(out,
                "  %5" PRIu64 " %-10s %10.3f %8.3f %8.3f | %-9s %10.3f %10.3f %8.3f %8.3f %8.3f | %7.1fMiB %7.1fMiB\n",
                l, boundary_words(plan, l), lzt_ms(x->forward_ps), lzt_ms(x->upload_ps), lzt_ms(down),
                internals_word(plan->internals[l]), lzt_ms(again), lzt_ms(x->backward_ps),
                plan->weights[l] ? 0 : lzt_ms(x->upload_ps), lzt_ms(back_ps), lzt_ms(x->gradient_ps),
                mib(x->internals_bytes), mib(x->weight_bytes));
    }
}

void lzt__plan_explain_step(FILE *out, const lzt_plan *plan)
{
    lzt_step_sum sum;
    lzt_step_model_sum(plan->step, plan->boundary, plan->internals, plan->weights, &sum);
    put_result(out, plan, &sum);
    put_sums(out, plan, &sum);
    put_memory(out, plan, &sum);
    put_layers(out, plan);
}
