/* lazytrain sim: a plan's step on a machine's profile, without running it. */
#include "cli/commands.h"
#include "cli/forecast.h"
#include "cli/probe_list.h"
#include "cli/talk.h"
#include "lazytrain/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lzt_option options[] = {
    {.name = "plan",
     .argument = "PLAN",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "the plan.json to simulate"},
    {.name = "model",
     .argument = "PATH",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "the model's directory or config.json; no weights are read"},
    {.name = "profile",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "what lazytrain probe measured"},
    {.name = "batch",
     .argument = "B",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .help = "rows of a micro-batch; default: as many as the profile's documents make of it"},
    {.name = "accumulation", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "1", .help = "micro-batches a step"},
    {.name = "trace",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "write the step as a trace for ui.perfetto.dev"},
    LZT_OPTION_JSON,
};

static lzt_status print_json(const lzt_forecast *f, lzt_error *err)
{
    json_t *busy = json_object(), *exposed = json_object(), *bytes = json_object();
    const lzt_account *a = &f->price.account;
    for (int i = 0; i < LZT_IDLE_COUNT; i++) {
        const char *name = i == LZT_IDLE_OTHER ? "other" : lzt_lane_name((lzt_lane)i);
        if (i == LZT_LANE_COMM) continue;
        if (i != LZT_IDLE_OTHER) json_object_set_new(busy, name, json_real(a->busy_seconds[i]));
        if (i != LZT_LANE_COMPUTE) json_object_set_new(exposed, name, json_real(a->exposed_seconds[i]));
    }
    json_object_set_new(bytes, "h2d", json_integer((json_int_t)a->bytes[LZT_LANE_H2D]));
    json_object_set_new(bytes, "d2h", json_integer((json_int_t)a->bytes[LZT_LANE_D2H]));
    return lzt_talk_json(
        json_pack("{s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "predicted_step_seconds", f->price.seconds,
                  "forward_seconds", a->forward_seconds, "backward_seconds", a->backward_seconds, "unlimited_seconds",
                  f->unlimited_seconds, "busy_seconds", busy, "exposed_seconds", exposed, "bytes", bytes,
                  "layer_forwards", (json_int_t)a->layer_forwards, "planned_device_bytes",
                  (json_int_t)f->peak_bytes[LZT_SPACE_DEVICE], "planned_host_bytes",
                  (json_int_t)f->peak_bytes[LZT_SPACE_HOST], "predicted_rss_bytes", (json_int_t)f->rss_bytes),
        err);
}

static void print_text(const lzt_forecast *f, const lzt_profile *profile)
{
    const lzt_account *a = &f->price.account;
    printf("step: %.4f s on %s, %s\n", f->price.seconds, profile->machine, profile->device);
    printf("  with unlimited buffers: %.4f s\n", f->unlimited_seconds);
    printf("  compute: %.4f s (forward %.4f, backward %.4f)\n", a->busy_seconds[LZT_LANE_COMPUTE], a->forward_seconds,
           a->backward_seconds);
    for (int i = 0; i < LZT_IDLE_COUNT; i++)
        if (i != LZT_LANE_COMPUTE && a->exposed_seconds[i] > 0)
            printf("  exposed, %s: %.4f s\n", i == LZT_IDLE_OTHER ? "other" : lzt_lane_name((lzt_lane)i),
                   a->exposed_seconds[i]);
    printf("lanes\n");
    for (int i = 0; i < LZT_LANE_COUNT; i++)
        if (a->busy_seconds[i] > 0)
            printf("  %-14s busy %8.4f s (%5.1f %%)%s%.3f GB\n", lzt_lane_name((lzt_lane)i), a->busy_seconds[i],
                   100 * a->busy_seconds[i] / f->price.seconds, i == LZT_LANE_COMPUTE ? "  layers' and head's " : "  ",
                   (double)a->bytes[i] * 1e-9);
    printf("memory: device %" PRIu64 " bytes, host %" PRIu64 " bytes, resident about %" PRIu64 " bytes\n",
           f->peak_bytes[LZT_SPACE_DEVICE], f->peak_bytes[LZT_SPACE_HOST], f->rss_bytes);
}

/* "attention_fwd.bf16.9x3x64.doc256": rows as long as the profile's documents. */
static uint64_t rows_of(const lzt_profile *profile, uint64_t tokens)
{
    for (uint64_t i = 0; i < profile->measurement_count; i++) {
        const lzt_measurement *m = &profile->measurement[i];
        const char *at = strstr(m->name, ".doc");
        uint64_t length = at && !strncmp(m->name, "attention_fwd.", 14) ? strtoull(at + 4, NULL, 10) : 0;
        if (length && length <= tokens) return tokens / length;
    }
    return 1;
}

static lzt_status simulate(const lzt_args *args, lzt_session *s, const lzt_profile *profile, lzt_error *err)
{
    lzt_forecast f;
    uint64_t micro_batches = lzt_args_uint(args, "accumulation");
    if (!micro_batches) return lzt_fail(err, LZT_ERR_USAGE, "--accumulation", "a step has at least one micro-batch");
    lzt_status status = lzt_session_open_config(s, lzt_args_text(args, "model"), err);
    if (!status) status = lzt_plan_read(lzt_args_text(args, "plan"), &s->plan, err);
    if (!status) status = lzt_plan_match(&s->plan, s->info, err);
    if (!status) status = lzt_plan_require(&s->plan, lzt_args_text(args, "plan"), err);
    if (status) return status;
    const lzt_numerics n = s->plan.numerics;
    uint64_t rows =
        lzt_args_given(args, "batch") ? lzt_args_uint(args, "batch") : rows_of(profile, n.micro_batch_tokens);
    if (!rows || rows > n.micro_batch_tokens)
        return lzt_fail(err, LZT_ERR_USAGE, "--batch", "%" PRIu64 " rows do not make %" PRIu64 " tokens", rows,
                        n.micro_batch_tokens);
    status = lzt_session_open_kernels(s, n.dtype, n.micro_batch_tokens, micro_batches, true, err);
    if (status) return status;
    uint64_t threads = s->numerics.threads;
    s->numerics = n;
    if (!n.threads) s->numerics.threads = s->plan.numerics.threads = threads;
    status = lzt_forecast_step(s, profile, rows, lzt_args_text(args, "trace"), &f, err);
    if (status) return status;
    if (lzt_args_flag(args, "json")) return print_json(&f, err);
    print_text(&f, profile);
    return LZT_OK;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_profile profile;
    lzt_session session = {0};
    lzt_status status = lzt_profile_read(lzt_args_text(args, "profile"), &profile, err);
    if (status) return status;
    status = simulate(args, &session, &profile, err);
    lzt_session_close(&session);
    lzt_profile_fini(&profile);
    return status;
}

const lzt_command lzt_command_sim = {
    .name = "sim",
    .summary = "simulate a plan's step on a profile",
    .example = "lazytrain sim --plan plan.json --model models/smollm2-135m --profile profile.json --trace sim.json",
    .details = "Compiles the plan, gives each task its time from the profile and lets the lanes run on a clock, with "
               "what each costs the others. Prints the step's time by part; the trace has the tracks of a run's own.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
