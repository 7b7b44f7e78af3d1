/* lazytrain plan: solve the source's placement problem, print its tables, write plan.json. */
#include "cli/commands.h"
#include "cli/plan_ranks.h"
#include "cli/plan_report.h"
#include "cli/plan_step.h"
#include "cli/plan_sweep.h"
#include "cli/talk.h"
#include "lazytrain/solve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GIB_OPTION(n, d, ...)                                                                                          \
    {                                                                                                                  \
        .name = n, .argument = "X", .type = LZT_OPTION_REAL, .unit = "GiB", .fallback = d, .help = __VA_ARGS__         \
    }
#define REAL_OPTION(n, u, d, ...)                                                                                      \
    {                                                                                                                  \
        .name = n, .argument = "X", .type = LZT_OPTION_REAL, .unit = u, .fallback = d, .help = __VA_ARGS__             \
    }
#define COUNT_OPTION(n, u, d, ...)                                                                                     \
    {                                                                                                                  \
        .name = n, .argument = "N", .type = LZT_OPTION_UINT, .unit = u, .fallback = d, .help = __VA_ARGS__             \
    }

static const lzt_option options[] = {
    {.name = "model",
     .argument = "PATH",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "a Hugging Face directory or its config.json"},
    {.name = "output", .argument = "FILE", .type = LZT_OPTION_PATH, .help = "write plan.json here"},
    {.name = "html",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "write the plan as an HTML page: boundaries by tier, pools over windows, other budgets"},
    LZT_OPTION_JSON,
    {.name = "objective",
     .argument = "NAME",
     .type = LZT_OPTION_CHOICE,
     .choices = "source|step",
     .fallback = "source",
     .help = "the source's model, or the real step's predicted time (with --profile)"},
    {.name = "profile",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "step: the machine's measured times (lazytrain probe writes it); implies --objective step"},
    GIB_OPTION("host-cap-gb", NULL, "step: host memory that a run may use; without it, what the profile's machine has"),
    COUNT_OPTION("gradient-accumulation-steps", "micro-batches", "1",
                 "step: micro-batches of --batch-size sequences in a step"),
    COUNT_OPTION("loss-chunk", "tokens", NULL,
                 "step: tokens whose logits are held at once; without it, as train has it"),
    COUNT_OPTION("layer-splits", "parts", NULL,
                 "step: parts of a micro-batch that go through a layer one by one (layers without kernels only)"),
    COUNT_OPTION("threads", "threads", NULL,
                 "step: threads that compute, whose scratch is in the peaks; without it, this machine's cores"),
    COUNT_OPTION("work-limit", "tasks", NULL,
                 "step: end the search once this many tasks were compiled, the same plan on any machine; 0: never; "
                 "without it 3,000,000, or never with --time-limit-sec"),
    {.name = "no-advice", .help = "step: leave out what more of each resource would buy, and other numerics"},
    COUNT_OPTION("batch-size", "sequences", "72", "sequences in a step"),
    COUNT_OPTION("max-seq-len", "tokens", "1024", "tokens in a sequence"),
    COUNT_OPTION("dtype-bytes", "bytes", "2", "bytes of one element of activations and parameters"),
    GIB_OPTION("peak-cap-gb", "70",
               "the device memory that a step may use (step: without it, what the profile's machine has)"),
    GIB_OPTION("baseline-peak-gb", "60.4", "measured peak of the fixed-interval baseline, its checkpoints included"),
    COUNT_OPTION("baseline-checkpoint-interval", "layers", "4", "interval of that baseline"),
    COUNT_OPTION("max-segment-layers", "layers", "4", "the longest backward block"),
    GIB_OPTION("cpu-activation-budget-gb", NULL, "CPU memory for activations; must be given"),
    {.name = "enable-nvme-offload", .help = "let activations go to NVMe"},
    GIB_OPTION("nvme-activation-budget-gb", NULL,
               "NVMe space for activations; must be given with --enable-nvme-offload"),
    {.name = "nvme-transfer-mode",
     .argument = "MODE",
     .type = LZT_OPTION_CHOICE,
     .choices = "gds|cpu_staging",
     .fallback = "gds",
     .help = "how activations reach the drive: directly, or through pinned memory"},
    REAL_OPTION("layer-recompute-ms", "ms", "20", "forward time of a full-attention layer"),
    REAL_OPTION("linear-recompute-ratio", NULL, "0.7", "a linear-attention layer's time over a full-attention layer's"),
    {.name = "enable-overlap-aware-offload", .help = "charge PCIe transfers only as far as compute cannot hide them"},
    {.name = "enable-overlap-aware-nvme", .help = "the same for the drive"},
    REAL_OPTION("activation-comm-capacity-fraction", NULL, "1.0", "share of a PCIe window that transfers may use"),
    REAL_OPTION("activation-comm-window-ms-scale", NULL, "5.0", "a PCIe window's length over its layer's forward time"),
    REAL_OPTION("nvme-comm-capacity-fraction", NULL, "1.0", "share of a drive window that transfers may use"),
    REAL_OPTION("nvme-comm-window-ms-scale", NULL, "5.0", "a drive window's length over its layer's forward time"),
    REAL_OPTION("activation-h2d-bandwidth-gbps", "GB/s", "12", "CPU to GPU"),
    REAL_OPTION("activation-d2h-bandwidth-gbps", "GB/s", "12", "GPU to CPU"),
    REAL_OPTION("nvme-read-bandwidth-gbps", "GB/s", "2.83", "NVMe to GPU"),
    REAL_OPTION("nvme-write-bandwidth-gbps", "GB/s", "3.35", "GPU to NVMe"),
    {.name = "include-param-grad-pcie", .help = "count parameter uploads and gradient downloads against the windows"},
    {.name = "optimizer-state-mode",
     .argument = "MODE",
     .type = LZT_OPTION_TEXT,
     .fallback = "hybrid_8bit_adam",
     .help = "optimizer note of the table; it does not enter the objective"},
    REAL_OPTION("optimizer-max-8bit-fraction", NULL, "0.02", "share of parameters with 8-bit moments"),
    REAL_OPTION("optimizer-alpha-step-sec", "s", "119.18", "the note's step time without either optimizer change"),
    REAL_OPTION("optimizer-fast-grad-clip-saving-sec", "s", "18", "what the fast clip saves of it"),
    REAL_OPTION("optimizer-full-8bit-extra-step-sec", "s", "123", "what moments all in 8 bits would add"),
    REAL_OPTION("hidden-nvme-offload-tiebreak-ms", "ms", "0.001", "cost of an NVMe checkpoint among equal plans"),
    REAL_OPTION("checkpoint-penalty", "ms", "1e-5", "cost of any checkpoint among equal plans"),
    {.name = "reference-schedule",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "a plan.json, or JSON with selected_edges and gpu_checkpoints"},
    {.name = "lock-reference-edges", .help = "keep the reference's blocks"},
    {.name = "lock-reference-gpu-checkpoints", .help = "keep the reference's GPU checkpoints"},
    REAL_OPTION("time-limit-sec", "s", "60",
                "stop searching after this time, HiGHS half a second later; 0: never (step: by the clock, so that "
                "another run may find another plan; only where it is given)"),
    {.name = "solver",
     .argument = "NAME",
     .type = LZT_OPTION_CHOICE,
     .choices = "auto|dp|highs",
     .fallback = "auto",
     .help = "dynamic programme, or HiGHS where its library is found"},
    {.name = "highs-library",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "libhighs.so; else $LZT_HIGHS, else beside the program, else the system's. One that is named is used, or "
             "refused: HiGHS 1.5 or a later 1 (tools/install-highs fetches it)"},
    {.name = "sweep",
     .argument = "TIER=FROM:TO[:STEP]",
     .type = LZT_OPTION_TEXT,
     .help = "solve for a range of budgets in GiB, tier cpu, nvme or gpu (the peak cap): one table, one plot"},
    {.name = "topology",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "pools that several GPUs share (JSON): plan each rank on its share of them; FILE of --output gets a "
             ".rankN before its ending"},
    {.name = "world-size", .argument = "N", .type = LZT_OPTION_UINT, .help = "ranks of the topology, one a GPU"},
    {.name = "trust-remote-code", .help = "accepted for the source's command lines; only config.json is read"},
};

static void read_options(const lzt_args *a, lzt_source_options *o)
{
    *o = (lzt_source_options)LZT_SOURCE_OPTIONS_INIT;
    o->batch_size = lzt_args_uint(a, "batch-size");
    o->max_seq_len = lzt_args_uint(a, "max-seq-len");
    o->dtype_bytes = lzt_args_uint(a, "dtype-bytes");
    o->peak_cap_gib = lzt_args_real(a, "peak-cap-gb");
    o->baseline_peak_gib = lzt_args_real(a, "baseline-peak-gb");
    o->baseline_checkpoint_interval = lzt_args_uint(a, "baseline-checkpoint-interval");
    o->max_segment_layers = lzt_args_uint(a, "max-segment-layers");
    if (lzt_args_given(a, "cpu-activation-budget-gb"))
        o->cpu_activation_budget_gib = lzt_args_real(a, "cpu-activation-budget-gb");
    o->enable_nvme_offload = lzt_args_flag(a, "enable-nvme-offload");
    if (lzt_args_given(a, "nvme-activation-budget-gb"))
        o->nvme_activation_budget_gib = lzt_args_real(a, "nvme-activation-budget-gb");
    o->cpu_staging = !strcmp(lzt_args_text(a, "nvme-transfer-mode"), "cpu_staging");
    o->layer_recompute_ms = lzt_args_real(a, "layer-recompute-ms");
    o->linear_recompute_ratio = lzt_args_real(a, "linear-recompute-ratio");
    o->enable_overlap_aware_offload = lzt_args_flag(a, "enable-overlap-aware-offload");
    o->enable_overlap_aware_nvme = lzt_args_flag(a, "enable-overlap-aware-nvme");
    o->activation_comm_capacity_fraction = lzt_args_real(a, "activation-comm-capacity-fraction");
    o->activation_comm_window_ms_scale = lzt_args_real(a, "activation-comm-window-ms-scale");
    o->nvme_comm_capacity_fraction = lzt_args_real(a, "nvme-comm-capacity-fraction");
    o->nvme_comm_window_ms_scale = lzt_args_real(a, "nvme-comm-window-ms-scale");
    o->activation_h2d_bandwidth_gbps = lzt_args_real(a, "activation-h2d-bandwidth-gbps");
    o->activation_d2h_bandwidth_gbps = lzt_args_real(a, "activation-d2h-bandwidth-gbps");
    o->nvme_read_bandwidth_gbps = lzt_args_real(a, "nvme-read-bandwidth-gbps");
    o->nvme_write_bandwidth_gbps = lzt_args_real(a, "nvme-write-bandwidth-gbps");
    o->include_param_grad_pcie = lzt_args_flag(a, "include-param-grad-pcie");
    o->optimizer_state_mode = lzt_args_text(a, "optimizer-state-mode");
    o->optimizer_max_8bit_fraction = lzt_args_real(a, "optimizer-max-8bit-fraction");
    o->optimizer_alpha_step_sec = lzt_args_real(a, "optimizer-alpha-step-sec");
    o->optimizer_fast_grad_clip_saving_sec = lzt_args_real(a, "optimizer-fast-grad-clip-saving-sec");
    o->optimizer_full_8bit_extra_step_sec = lzt_args_real(a, "optimizer-full-8bit-extra-step-sec");
    o->hidden_nvme_offload_tiebreak_ms = lzt_args_real(a, "hidden-nvme-offload-tiebreak-ms");
    o->checkpoint_penalty = lzt_args_real(a, "checkpoint-penalty");
    o->reference_schedule = lzt_args_text(a, "reference-schedule");
    o->lock_reference_edges = lzt_args_flag(a, "lock-reference-edges");
    o->lock_reference_gpu_checkpoints = lzt_args_flag(a, "lock-reference-gpu-checkpoints");
}

static lzt_status read_solve_options(const lzt_args *a, lzt_solve_options *solve, lzt_error *err)
{
    const char *name = lzt_args_text(a, "solver");
    *solve = (lzt_solve_options)LZT_SOLVE_OPTIONS_INIT;
    solve->solver = !strcmp(name, "dp") ? LZT_SOLVER_DP : !strcmp(name, "highs") ? LZT_SOLVER_HIGHS : LZT_SOLVER_AUTO;
    solve->time_limit_s = lzt_args_real(a, "time-limit-sec");
    solve->highs_library = lzt_args_text(a, "highs-library");
    if (solve->time_limit_s >= 0) return LZT_OK;
    return lzt_fail(err, LZT_ERR_USAGE, "--time-limit-sec", "is %g, must be at least 0", solve->time_limit_s);
}

/* Budgets have no defaults: a guess would be taken for a measurement. */
static lzt_status check_budgets(const lzt_args *a, const char *swept, lzt_error *err)
{
    if (!lzt_args_given(a, "cpu-activation-budget-gb") && strcmp(swept, "cpu")) {
        lzt_fail(err, LZT_ERR_USAGE, "--cpu-activation-budget-gb", "is missing");
        return lzt_hint(err, "say how many GiB of CPU memory activations may use; 0 is allowed");
    }
    bool nvme = lzt_args_given(a, "nvme-activation-budget-gb");
    if (lzt_args_flag(a, "enable-nvme-offload") && !nvme && strcmp(swept, "nvme")) {
        lzt_fail(err, LZT_ERR_USAGE, "--nvme-activation-budget-gb", "is missing");
        return lzt_hint(err, "say how many GiB of the drive activations may use");
    }
    if (nvme && !lzt_args_flag(a, "enable-nvme-offload"))
        lzt_talk("note: --nvme-activation-budget-gb has no effect without --enable-nvme-offload");
    return LZT_OK;
}

/* What the command line states bounds a rank's share; what it leaves to its defaults does not. */
static lzt_status plan_ranks(const lzt_args *a, const lzt_model_info *model, const lzt_source_options *o,
                             const lzt_solve_options *solve, lzt_error *err)
{
    const lzt_ranks_options ranks = {.topology = lzt_args_text(a, "topology"),
                                     .world_size = lzt_args_uint(a, "world-size"),
                                     .model_name = lzt_args_text(a, "model"),
                                     .output = lzt_args_text(a, "output"),
                                     .json = lzt_args_flag(a, "json"),
                                     .stated = {.bytes_per_s = {lzt_args_given(a, "activation-d2h-bandwidth-gbps"),
                                                                lzt_args_given(a, "activation-h2d-bandwidth-gbps"),
                                                                lzt_args_given(a, "nvme-write-bandwidth-gbps"),
                                                                lzt_args_given(a, "nvme-read-bandwidth-gbps")},
                                                .cpu_budget = lzt_args_given(a, "cpu-activation-budget-gb"),
                                                .nvme_budget = lzt_args_given(a, "nvme-activation-budget-gb")}};
    return lzt_ranks_run(&ranks, model, o, solve, err);
}

static lzt_status check_topology(const lzt_args *a, lzt_error *err)
{
    bool topology = lzt_args_given(a, "topology");
    if (topology != lzt_args_given(a, "world-size"))
        return lzt_fail(err, LZT_ERR_USAGE, topology ? "--topology" : "--world-size",
                        "--topology and --world-size go together");
    if (lzt_args_given(a, "html") && (topology || lzt_args_given(a, "sweep")))
        return lzt_fail(err, LZT_ERR_USAGE, "--html", "shows one plan; write the others with lazytrain explain --html");
    if (topology && lzt_args_given(a, "sweep"))
        return lzt_fail(err, LZT_ERR_USAGE, "--sweep", "sweeps one plan; a topology has one a rank");
    return LZT_OK;
}

/* Only a regular file, or a name that does not exist yet, may be replaced. */
static lzt_status check_output(const char *path, lzt_error *err)
{
    struct stat st;
    if (!path || stat(path, &st) || S_ISREG(st.st_mode)) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, "--output", "%s is not a regular file", path);
    return lzt_hint(err, "use --json to print the plan on standard output");
}

/* No plan: exit 3, nothing written; --json still gets its document. */
static lzt_status report_no_plan(const lzt_solve_result *r, bool json, lzt_error *err)
{
    bool limit = r->status == LZT_PLAN_LIMIT;
    if (json) {
        json_t *out = json_pack("{s:s, s:s, s:f, s:f}", "status", lzt_plan_status_name(r->status), "solver", r->solver,
                                "bound_ms", lzt_ms(r->bound_ps), "solve_seconds", r->solve_seconds);
        if (out && !limit)
            json_object_update_new(out, json_pack("{s:s, s:I, s:s}", "resource", lzt_tier_name(r->resource),
                                                  "missing_bytes", (json_int_t)r->missing_bytes, "reason", r->reason));
        lzt_status status = lzt_talk_json(out, err);
        if (status) return status;
    }
    if (limit) {
        lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "the limit was reached after %.1f s without a plan", r->solve_seconds);
        return lzt_hint(err, "raise --time-limit-sec, or use --solver dp");
    }
    lzt_fail(err, LZT_ERR_NO_PLAN, "plan", "%s", r->reason);
    return r->way_out[0] ? lzt_hint(err, "%s", r->way_out) : LZT_ERR_NO_PLAN;
}

static lzt_status print_plan(const lzt_plan *plan, bool json, lzt_error *err)
{
    char *text;
    lzt_status status = json ? lzt_plan_print(plan, &text, err) : lzt_plan_table(plan, &text, err);
    if (status) return status;
    fputs(text, stdout);
    free(text);
    return LZT_OK;
}

static lzt_status plan_once(const lzt_args *args, const lzt_model_info *model, const lzt_source_options *o,
                            const lzt_solve_options *solve, lzt_error *err)
{
    const char *output = lzt_args_text(args, "output");
    lzt_plan plan;
    lzt_solve_result result;
    lzt_status status = check_output(output, err);
    if (!status) status = lzt_source_plan(model, o, solve, &plan, &result, err);
    if (status) return status;
    if (result.status != LZT_PLAN_OPTIMAL && result.status != LZT_PLAN_FEASIBLE)
        return report_no_plan(&result, lzt_args_flag(args, "json"), err);
    snprintf(plan.model_name, sizeof plan.model_name, "%s", lzt_args_text(args, "model"));
    if (output) status = lzt_plan_write(output, &plan, err);
    if (!status && lzt_args_given(args, "html")) status = lzt_plan_report(&plan, lzt_args_text(args, "html"), err);
    if (!status) status = print_plan(&plan, lzt_args_flag(args, "json"), err);
    lzt_plan_fini(&plan);
    return status;
}

static lzt_status check_step(const lzt_args *args, lzt_error *err)
{
    if (lzt_args_given(args, "topology")) {
        lzt_fail(err, LZT_ERR_USAGE, "--topology", "is the source's model's; the real step is planned for one rank");
        return lzt_hint(err, "leave out --profile and --objective step");
    }
    return check_output(lzt_args_text(args, "output"), err);
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_source_options o;
    lzt_solve_options solve;
    lzt_sweep sweep = {0};
    lzt_model *model;
    lzt_status status = LZT_OK;
    bool step = lzt_args_given(args, "profile") || !strcmp(lzt_args_text(args, "objective"), "step");
    read_options(args, &o);
    if (lzt_args_given(args, "sweep")) status = lzt_sweep_parse(lzt_args_text(args, "sweep"), &sweep, err);
    if (!status) status = check_topology(args, err);
    if (!status && !step && !lzt_args_given(args, "topology")) status = check_budgets(args, sweep.tier, err);
    if (!status && step) status = check_step(args, err);
    if (!status) status = read_solve_options(args, &solve, err);
    if (!status) status = lzt_model_open(lzt_args_text(args, "model"), LZT_MODEL_CONFIG_ONLY, &model, err);
    if (status) return status;
    const lzt_model_info *info = lzt_model_get_info(model);
    if (info->quantized) lzt_talk("note: quantization_config is ignored; sizes are those of --dtype-bytes");
    if (step)
        status = lzt_plan_step(args, info, lzt_args_given(args, "sweep") ? &sweep : NULL, err);
    else if (lzt_args_given(args, "topology"))
        status = plan_ranks(args, info, &o, &solve, err);
    else if (lzt_args_given(args, "sweep"))
        status = lzt_sweep_run(&sweep, info, &o, &solve, lzt_args_flag(args, "json"), err);
    else
        status = plan_once(args, info, &o, &solve, err);
    lzt_model_close(model);
    return status;
}

const lzt_command lzt_command_plan = {
    .name = "plan",
    .summary = "place activations on GPU, CPU and NVMe, or recompute them",
    .example = "lazytrain plan --model Qwen3.6-27B --cpu-activation-budget-gb 14 --enable-nvme-offload "
               "--nvme-activation-budget-gb 32 --enable-overlap-aware-offload --enable-overlap-aware-nvme "
               "--include-param-grad-pcie --output plan.json\n"
               "lazytrain plan --model Qwen3.6-27B --sweep cpu=8:15\n"
               "lazytrain plan --model Qwen3.6-27B --topology node.json --world-size 2 --output plan.json\n"
               "lazytrain plan --model smollm2-135m --objective step --profile profile.json --batch-size 2 "
               "--max-seq-len 256 --peak-cap-gb 0.3 --output plan.json",
    .details =
        "Solves the placement model of LAZY-Train v4 exactly. Defaults are those of the source's own command; "
        "budgets have none, and switches are off. GB in an option's name means GiB where it measures memory "
        "and 10^9 bytes per second where it measures a rate. Exit 3 when nothing fits: the message names the "
        "budget and the missing bytes, and no file is touched.\n\n"
        "--objective step plans the real step instead: every part's time comes from a profile, candidates are "
        "compiled and simulated, and the fastest that fits is written. It reads --batch-size, --max-seq-len, "
        "--dtype-bytes, --peak-cap-gb, --time-limit-sec and the options marked step. The same profile, model and caps "
        "give the same plan however fast or busy the machine is; status optimal says that the whole list was searched, "
        "feasible that a limit came first, and the key limit which.\n\n"
        "A topology is {\"pools\": [{\"name\", \"kind\", \"bytes_per_second\", \"bytes\", \"ranks\"}]}, kind one of "
        "gpu_link, gpu_link_up, gpu_link_down, root_complex, socket, nvme, nvme_read, nvme_write, nvlink. Each pool "
        "is shared equally by its ranks; a rank's rate is the least share on the way, and its budgets are its "
        "shares of a socket's and a drive's bytes, at most what the options state. docs/formats/topology.md.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
