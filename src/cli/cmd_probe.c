/* lazytrain probe: measures the machine into a profile. */
#include "cli/commands.h"
#include "cli/probe_list.h"
#include "cli/talk.h"
#include "lazytrain/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const lzt_option options[] = {
    {.name = "model",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "a model's directory or config.json: its operators and sizes are measured; no weights are read. Required "
             "but with --from-run or --drive"},
    {.name = "batch",
     .argument = "B",
     .type = LZT_OPTION_UINT,
     .unit = "rows",
     .fallback = "4",
     .help = "rows of a micro-batch"},
    {.name = "seq",
     .argument = "S",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "512",
     .help = "of each row"},
    {.name = "dtype",
     .argument = "TYPE",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .help = "weights and activations; default: the directory's own"},
    {.name = "accumulation",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .fallback = "1",
     .help = "micro-batches a step: with more than one, gradients are F32 and added on the host"},
    {.name = "link-gbps",
     .argument = "X",
     .type = LZT_OPTION_TEXT,
     .fallback = "0",
     .help = "throttle copies to X GB/s, as memory.link_gbps does"},
    {.name = "compute-slowdown",
     .argument = "X",
     .type = LZT_OPTION_TEXT,
     .fallback = "1",
     .help = "stretch compute, as memory.compute_slowdown does"},
    {.name = "seconds",
     .argument = "X",
     .type = LZT_OPTION_REAL,
     .unit = "s",
     .fallback = "2",
     .help = "spent on each part: copies, kernels, host work, each pair of lanes"},
    {.name = "drive",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "measure the drive that DIR is on too, or, without --model, alone: a file is made there and gone "
             "afterwards"},
    {.name = "drive-bytes",
     .argument = "SIZE",
     .type = LZT_OPTION_SIZE,
     .unit = "bytes",
     .fallback = "256MiB",
     .help = "of that file"},
    {.name = "from-run",
     .argument = "RUN_DIR",
     .type = LZT_OPTION_PATH,
     .help = "measure nothing: take what a run saw (its observed.json), into --out where that is a profile already"},
    {.name = "out", .argument = "FILE", .type = LZT_OPTION_PATH, .help = "write the profile there"},
    LZT_OPTION_JSON,
};

static void print_list(const lzt_profile *p)
{
    printf("machine: %s\ndevice: %s\n", p->machine, p->device);
    for (uint64_t i = 0; i < p->measurement_count; i++) {
        const lzt_measurement *m = &p->measurement[i];
        bool rate = m->kind == LZT_MEASURE_RATE;
        double unit = rate ? 1e-9 : 1e3;
        printf("%-46s %12" PRIu64 "  %10.4f %s (%.4f to %.4f, n %" PRIu64 ")\n", m->name, m->size, m->median * unit,
               rate ? "GB/s" : "ms", m->min * unit, m->max * unit, m->count);
    }
}

static lzt_status put_out(const lzt_args *args, const lzt_profile *profile, lzt_error *err)
{
    char *text;
    lzt_status status = LZT_OK;
    if (lzt_args_text(args, "out")) status = lzt_profile_write(lzt_args_text(args, "out"), profile, err);
    if (status) return status;
    if (!lzt_args_flag(args, "json")) {
        print_list(profile);
        return LZT_OK;
    }
    status = lzt_profile_print(profile, &text, err);
    if (status) return status;
    fputs(text, stdout);
    free(text);
    return LZT_OK;
}

/* What lanes cost each other is in a run's own times: the measured overlaps would count it twice. */
static void drop_overlaps(lzt_profile *p)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < p->measurement_count; i++)
        if (strncmp(p->measurement[i].name, "overlap.", 8)) p->measurement[kept++] = p->measurement[i];
    p->measurement_count = kept;
}

/* Two machines' numbers in one profile would be no machine's: what the run did not see would stay the other's. */
static lzt_status same_machine(const char *out, const lzt_profile *there, const lzt_profile *seen, lzt_error *err)
{
    bool machine = !strcmp(there->machine, seen->machine);
    if (machine && !strcmp(there->device, seen->device)) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, out, "was measured on \"%s\", the run computed on \"%s\"",
             machine ? there->device : there->machine, machine ? seen->device : seen->machine);
    return lzt_hint(err, "name another file as --out");
}

static lzt_status from_run(const lzt_args *args, lzt_profile *profile, lzt_error *err)
{
    char path[4200];
    lzt_profile seen;
    const char *out = lzt_args_text(args, "out");
    snprintf(path, sizeof path, "%s/observed.json", lzt_args_text(args, "from-run"));
    if (access(path, F_OK)) {
        lzt_fail(err, LZT_ERR_USAGE, path, "is not there");
        return lzt_hint(err, "a run writes it at its end, once a step with full micro-batches has run");
    }
    lzt_status status = lzt_profile_read(path, &seen, err);
    if (!status && out && !access(out, F_OK)) {
        status = lzt_profile_read(out, profile, err);
        if (!status) status = same_machine(out, profile, &seen, err);
    }
    drop_overlaps(profile);
    snprintf(profile->machine, sizeof profile->machine, "%s", seen.machine);
    snprintf(profile->device, sizeof profile->device, "%s", seen.device);
    if (seen.device_bytes) profile->device_bytes = seen.device_bytes;
    if (seen.host_bytes) profile->host_bytes = seen.host_bytes;
    for (uint64_t i = 0; i < seen.measurement_count && !status; i++)
        status = lzt_profile_add(profile, &seen.measurement[i], err);
    lzt_profile_fini(&seen);
    return status;
}

static lzt_status measure_drive(const lzt_args *args, lzt_profile *profile, lzt_error *err)
{
    lzt_probe_drive_options o = LZT_PROBE_DRIVE_OPTIONS_INIT;
    o.directory = lzt_args_text(args, "drive");
    o.file_bytes = lzt_args_size(args, "drive-bytes");
    o.seconds = 4 * lzt_args_real(args, "seconds");
    if (!lzt_args_flag(args, "json")) lzt_talk("measuring: the drive of %s", o.directory);
    lzt_status status = lzt_probe_drive(&o, profile, err);
    if (!status && !lzt_args_flag(args, "json")) lzt_talk("drive: %s", profile->drive);
    return status;
}

static lzt_status measure(const lzt_args *args, lzt_session *s, lzt_profile *profile, lzt_error *err)
{
    uint64_t rows = lzt_args_uint(args, "batch"), length = lzt_args_uint(args, "seq");
    uint64_t micro_batches = lzt_args_uint(args, "accumulation");
    if (!rows || length < 2 || !micro_batches)
        return lzt_fail(err, LZT_ERR_USAGE, "probe", "needs a row, two tokens and a micro-batch at least");
    lzt_status status = lzt_session_open_config(s, lzt_args_text(args, "model"), err);
    if (status) return status;
    lzt_dtype dtype = lzt_session_dtype(s, lzt_args_text(args, "dtype"));
    status = lzt_session_open_kernels(s, dtype, rows * length, micro_batches, true, err);
    if (!status)
        status = lzt_probe_session(s, rows, lzt_args_real(args, "seconds"), !lzt_args_flag(args, "json"), profile, err);
    return status;
}

static lzt_status measure_all(const lzt_args *args, lzt_session *s, lzt_profile *profile, lzt_error *err)
{
    if (lzt_args_given(args, "from-run")) return from_run(args, profile, err);
    bool drive = lzt_args_given(args, "drive");
    if (!drive && !lzt_args_given(args, "model"))
        return lzt_fail(err, LZT_ERR_USAGE, "--model", "whose operators are to be measured? (or --from-run RUN_DIR)");
    if (!(lzt_args_real(args, "seconds") > 0)) return lzt_fail(err, LZT_ERR_USAGE, "--seconds", "must be positive");
    lzt_status status = lzt_args_given(args, "model") ? measure(args, s, profile, err) : LZT_OK;
    return status || !drive ? status : measure_drive(args, profile, err);
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    const lzt_config_override given[] = {{"memory.link_gbps", lzt_args_text(args, "link-gbps")},
                                         {"memory.compute_slowdown", lzt_args_text(args, "compute-slowdown")}};
    lzt_config config;
    lzt_profile profile = {0};
    lzt_status status = lzt_config_load(NULL, given, LZT_COUNT(given), &config, err);
    if (status) return status;
    lzt_session session = {.config = &config};
    status = measure_all(args, &session, &profile, err);
    if (!status) status = put_out(args, &profile, err);
    lzt_profile_fini(&profile);
    lzt_session_close(&session);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_probe = {
    .name = "probe",
    .summary = "measure the machine into a profile",
    .example = "lazytrain probe --model models/smollm2-135m --batch 2 --seq 256 --out profile.json",
    .details = "Measures what a step of this model at this batch is made of: copies by size and direction, each "
               "operator, the optimizer, and every pair of lanes side by side. The planner and the simulator read the "
               "profile; they never measure.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
