/* lazytrain train: a config becomes a plan, a run, and a model directory. */
#include "base/os.h"
#include "cli/commands.h"
#include "cli/data_counts.h"
#include "cli/dry_run.h"
#include "cli/forecast.h"
#include "cli/observed.h"
#include "cli/session.h"
#include "cli/session_step.h"
#include "cli/step_trace.h"
#include "cli/talk.h"
#include "lazytrain/train.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const lzt_option options[] = {
    {.name = "CONFIG", .type = LZT_OPTION_PATH, .required = true, .help = "the YAML file"},
    {.name = "dry-run",
     .help =
         "resolve, plan, say whether it fits, how long a step takes, what it needs of the disk and writes to it, and "
         "stop; config.json is enough"},
    {.name = "device-cap",
     .argument = "SIZE",
     .type = LZT_OPTION_SIZE,
     .unit = "bytes",
     .help = "the same as --memory.device_cap"},
    {.name = "dump-gradients",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "write step 1's gradients, before clipping, as safetensors (F32, Hugging Face's names)"},
    {.name = "trace", .help = "write the last step's tasks as trace-*.json for ui.perfetto.dev"},
    {.name = "quiet", .help = "no progress"},
    LZT_OPTION_JSON,
};

/* A signal asks the loop to stop; the same one again ends the process at once. */
static volatile sig_atomic_t stop_requested;

static void on_signal(int number)
{
    (void)number;
    stop_requested = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- the config and its device cap ---- */

static lzt_status load_config(const lzt_args *args, lzt_config *config, lzt_error *err)
{
    int count;
    char cap[32];
    const lzt_config_override *given = lzt_args_overrides(args, &count);
    lzt_config_override *all = calloc((size_t)count + 1, sizeof *all);
    if (!all) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the overrides");
    if (count) memcpy(all, given, (size_t)count * sizeof *all);
    if (lzt_args_given(args, "device-cap")) {
        snprintf(cap, sizeof cap, "%llu", (unsigned long long)lzt_args_size(args, "device-cap"));
        all[count++] = (lzt_config_override){"memory.device_cap", cap};
    }
    const char *path = lzt_args_text(args, "CONFIG");
    lzt_status status = lzt_args_flag(args, "dry-run") ? lzt_config_load_to_plan(path, all, count, config, err)
                                                       : lzt_config_load(path, all, count, config, err);
    free(all);
    if (status) return status;
    status = lzt_config_require(config, "model_name_or_path", err);
    if (!status) status = lzt_config_require(config, "dataset", err);
    if (!status) status = lzt_config_require(config, "output_dir", err);
    if (status) lzt_config_fini(config);
    return status;
}

/* ---- the run directory ---- */

/* One run writes there at a time: the directory itself is locked, until *lock is closed or the process ends. *lock: -1
 * where the directory does not exist yet, or its file system has no locks. */
static lzt_status hold_output(const char *out, int *lock, lzt_error *err)
{
    const lzt_os *os = lzt__os_posix();
    int fd = os->openat(os, AT_FDCWD, out, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return LZT_OK; /* what is wrong with it shows when it is written to */
    int rc = os->flock(os, fd, LOCK_EX | LOCK_NB);
    if (rc >= 0) {
        *lock = fd;
        return LZT_OK;
    }
    os->close(os, fd);
    if (rc != -EWOULDBLOCK) return LZT_OK;
    lzt_fail(err, LZT_ERR_STORAGE, out, "another run is writing there");
    return lzt_hint(err, "wait for it, end it, or set another output_dir");
}

static lzt_status make_output(const lzt_session *s, int *lock, lzt_error *err)
{
    char path[4096];
    const char *out = s->config->output_dir;
    lzt_status status = lzt__os_make_dirs(lzt__os_posix(), out, err);
    if (!status && *lock < 0) status = hold_output(out, lock, err);
    snprintf(path, sizeof path, "%s/config.resolved.yaml", out);
    if (!status) status = lzt_config_write_resolved(s->config, path, err);
    snprintf(path, sizeof path, "%s/plan.json", out);
    if (!status) status = lzt_plan_write(path, &s->plan, err);
    return status;
}

static lzt_status final_source(void *arg, uint32_t tensor, float *out, lzt_error *err)
{
    return lzt_engine_read_weight(arg, tensor, out, err);
}

static lzt_status save_final(const lzt_session *s, lzt_error *err)
{
    char path[4096];
    if (!s->config->save_final) return LZT_OK;
    snprintf(path, sizeof path, "%s/final", s->config->output_dir);
    return lzt_model_export(s->model, path, s->numerics.dtype, final_source, s->engine, err);
}

static void say_plan(const lzt_session *s)
{
    uint64_t n = s->plan.layer_count, internals[LZT_TIER_COUNT] = {0}, weights = 0, tier[LZT_TIER_COUNT] = {0};
    for (uint64_t i = 0; i < n; i++) {
        internals[s->plan.internals[i]]++;
        weights += s->plan.weights[i];
    }
    for (uint64_t i = 0; i <= n; i++) tier[s->plan.boundary[i]]++;
    lzt_session_say_search(s);
    lzt_talk("plan: %llu boundaries on the device, %llu on the host, %llu recomputed; internals of %llu and weights of "
             "%llu of %llu layers stay",
             (unsigned long long)tier[LZT_TIER_GPU], (unsigned long long)tier[LZT_TIER_CPU],
             (unsigned long long)tier[LZT_TIER_RECOMPUTE], (unsigned long long)internals[LZT_TIER_GPU],
             (unsigned long long)weights, (unsigned long long)n);
    if (internals[LZT_TIER_CPU])
        lzt_talk("      internals of %llu layers go to the host and come back",
                 (unsigned long long)internals[LZT_TIER_CPU]);
    lzt_talk(
        "memory: %.1f MiB on the device, %.1f MiB on the host; %llu layer forwards and %llu uploads a micro-batch of "
        "%llu tokens",
        (double)s->plan.device_bytes / 1048576.0, (double)s->plan.host_bytes / 1048576.0,
        (unsigned long long)s->plan.layer_forwards, (unsigned long long)s->plan.weight_uploads,
        (unsigned long long)s->numerics.micro_batch_tokens);
}

/* ---- predicted and seen ---- */

/* A profile that lacks something is no reason not to train. */
static void predict(const lzt_session *s, lzt_forecast *forecast)
{
    lzt_error why = {0};
    *forecast = (lzt_forecast){0};
    if (!s->has_profile) return;
    if (lzt_forecast_step(s, &s->profile, s->config->per_device_train_batch_size, NULL, forecast, &why)) {
        lzt_talk("note: the step is not predicted: %s %s (%s)", why.where, why.message, why.hint);
        *forecast = (lzt_forecast){0};
    }
}

/* observed.json: what the run saw. It is profile.json too where the run had none to go by, and saw enough. */
static lzt_status save_profiles(const lzt_session *s, const lzt_observer *observer, lzt_error *err)
{
    char path[4200];
    lzt_profile seen;
    lzt_status status = lzt_observer_profile(observer, &seen, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/observed.json", s->config->output_dir);
    if (seen.measurement_count) status = lzt_profile_write(path, &seen, err);
    snprintf(path, sizeof path, "%s/profile.json", s->config->output_dir);
    if (!status && s->has_profile) status = lzt_profile_write(path, &s->profile, err);
    if (!status && !s->has_profile && lzt_observer_saw_all(observer)) status = lzt_profile_write(path, &seen, err);
    lzt_profile_fini(&seen);
    return status;
}

/* ---- all of it ---- */

static void talk_line(void *arg, const char *line)
{
    (void)arg;
    lzt_talk("%s", line);
}

static lzt_status open_all(lzt_session *s, bool quiet, lzt_error *err)
{
    const lzt_config *c = s->config;
    uint64_t capacity;
    lzt_status status = lzt_session_open_model(s, c->model_name_or_path, err);
    if (!status) status = lzt_session_open_data(s, err);
    if (status) return status;
    lzt_session_say_cache(s->train, !quiet);
    lzt_session_say_cache(s->eval, !quiet);
    capacity = lzt_batcher_capacity(s->batcher);
    status = lzt_session_open_evaluation(s, &capacity, err);
    if (status) return status;
    return lzt_session_open_kernels(s, c->bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, capacity,
                                    c->gradient_accumulation_steps, true, err);
}

/* The run was complete before, and its final model was written after its last checkpoint: a run that was killed between
 * the two still owes it. */
static bool nothing_is_left(const lzt_session *s, const char *checkpoints, uint64_t start_step, uint64_t total)
{
    char path[4200];
    struct stat final, last;
    if (start_step < total || !start_step) return false;
    if (!s->config->save_final) return true;
    snprintf(path, sizeof path, "%s/final", s->config->output_dir);
    if (stat(path, &final)) return false;
    snprintf(path, sizeof path, "%s/step-%llu", checkpoints, (unsigned long long)start_step);
    if (stat(path, &last)) return true;
    return final.st_mtim.tv_sec > last.st_mtim.tv_sec ||
           (final.st_mtim.tv_sec == last.st_mtim.tv_sec && final.st_mtim.tv_nsec >= last.st_mtim.tv_nsec);
}

/* What the checked device found, task by task; one finding is a fault of ours. */
static lzt_status judge_device(const lzt_dev *dev, lzt_error *err)
{
    lzt_finding f;
    uint64_t count = lzt_dev_finding_count(dev);
    if (!count) return LZT_OK;
    for (uint64_t i = 0; i < count && i < 20 && lzt_dev_finding(dev, i, &f); i++)
        lzt_talk("cpu-checked: %s access: %s%s%s, %s memory at %llu, %llu bytes",
                 f.kind == LZT_FINDING_UNORDERED ? "unordered" : "undeclared", f.first, f.second[0] ? " and " : "",
                 f.second, f.space == LZT_SPACE_DEVICE ? "device" : "host", (unsigned long long)f.offset,
                 (unsigned long long)f.bytes);
    return lzt_fail(err, LZT_ERR_INTERNAL, "cpu-checked", "%llu accesses were not ordered or not declared",
                    (unsigned long long)count);
}

static lzt_status print_outcome(const lzt_train_outcome *o, lzt_error *err)
{
    return lzt_talk_json(json_pack("{s:I,s:I,s:I,s:o,s:o}", "steps", (json_int_t)o->steps, "applied_steps",
                                   (json_int_t)o->applied_steps, "nonfinite_steps", (json_int_t)o->nonfinite_steps,
                                   "loss", lzt_talk_json_real(o->last_loss), "eval_loss",
                                   lzt_talk_json_real(o->last_eval_loss)),
                         err);
}

static lzt_status train(const lzt_args *args, lzt_session *s, const lzt_forecast *forecast, int *lock, lzt_error *err)
{
    const lzt_config *c = s->config;
    char checkpoints[4096], answers[4096];
    lzt_train_outcome outcome;
    lzt_metrics *metrics = NULL;
    lzt_progress progress = {.stream = lzt_args_flag(args, "quiet") ? NULL : stderr,
                             .is_terminal = lzt_talk_is_terminal(stderr),
                             .use_color = lzt_talk_use_color(stderr)};
    lzt_train_options train_options = {.struct_bytes = sizeof train_options,
                                       .engine = s->engine,
                                       .config = c,
                                       .train = s->batcher,
                                       .eval = s->eval,
                                       .exam = s->exam,
                                       .answers = answers,
                                       .progress = &progress,
                                       .stop = &stop_requested,
                                       .dump_gradients = lzt_args_text(args, "dump-gradients"),
                                       .checkpoints = checkpoints,
                                       .cap_bytes = {c->memory.device_cap, c->memory.host_cap, c->memory.nvme_cap},
                                       .note = talk_line,
                                       .stepped = lzt_observer_step,
                                       .predicted_step_seconds = forecast->price.seconds,
                                       .predicted_rss_bytes = forecast->rss_bytes};
    lzt_observer *observer = NULL;
    uint64_t total = lzt_batcher_steps(s->batcher);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", c->output_dir);
    snprintf(answers, sizeof answers, "%s/answers", c->output_dir);
    lzt_status status = lzt_train_resume(&train_options, err); /* a run that is refused leaves the directory alone */
    if (!status) status = make_output(s, lock, err);
    if (!status && s->exam) status = lzt__os_make_dirs(lzt__os_posix(), answers, err);
    if (status) return status;
    lzt_metrics_options metric_options = LZT_METRICS_OPTIONS_INIT;
    metric_options.output_dir = c->output_dir;
    metric_options.resume = train_options.start_step > 0;
    metric_options.start_step = train_options.start_step;
    metric_options.total_steps = progress.total_steps = total;
    metric_options.logging_steps = progress.logging_steps = lzt_steps_of(c->logging_steps, total);
    status = lzt_metrics_open(&metric_options, &metrics, err);
    train_options.metrics = metrics;
    if (!status) status = lzt_observer_create(s, &observer, err);
    train_options.stepped_arg = observer;
    if (!status) status = lzt_train_run(&train_options, &outcome, err);
    lzt_progress_clear(&progress);
    lzt_metrics_close(metrics);
    if (!status) status = judge_device(lzt_engine_dev(s->engine), err);
    if (!status) status = save_profiles(s, observer, err);
    lzt_observer_destroy(observer);
    if (!status && lzt_args_flag(args, "trace"))
        status = lzt_step_trace_write(s->engine, c->output_dir, outcome.steps, err);
    bool nothing_left = nothing_is_left(s, checkpoints, train_options.start_step, total);
    if (!status && !nothing_left) status = save_final(s, err);
    if (!status && !nothing_left && !lzt_args_flag(args, "quiet"))
        lzt_talk("done: %llu steps, %llu skipped; loss %.6f%s%s%s", (unsigned long long)outcome.steps,
                 (unsigned long long)outcome.nonfinite_steps, outcome.last_loss, c->save_final ? "; model in " : "",
                 c->save_final ? c->output_dir : "", c->save_final ? "/final" : "");
    if (!status && lzt_args_flag(args, "json")) status = print_outcome(&outcome, err);
    return status;
}

/* What became of the rows, before the first step. */
static void say_data(const lzt_session *s)
{
    lzt_dataset_report r;
    lzt_data_say(s->train, "data");
    lzt_dataset_get_report(s->train, &r);
    if (r.split_off)
        lzt_talk("data: %llu rows split off for evaluation, chosen by seed %llu", (unsigned long long)r.split_off,
                 (unsigned long long)s->config->seed);
    if (s->eval) lzt_data_say(s->eval, "eval data");
}

static lzt_status run_session(const lzt_args *args, lzt_session *s, int *lock, lzt_error *err)
{
    for (uint64_t i = 0; i < s->config->note.count; i++) lzt_talk("note: %s", s->config->note.item[i]);
    lzt_status status = lzt_session_check_spill(s->config, err);
    if (status) return status;
    if (lzt_args_flag(args, "dry-run")) return lzt_dry_run(s, lzt_args_flag(args, "json"), err);
    lzt_forecast forecast;
    status = hold_output(s->config->output_dir, lock, err);
    if (!status) status = open_all(s, lzt_args_flag(args, "quiet"), err);
    if (!status) status = lzt_session_open_profile(s, err);
    if (!status) status = lzt_session_choose_plan(s, err);
    if (status) return status;
    predict(s, &forecast);
    if (!lzt_args_flag(args, "quiet")) say_data(s);
    if (!lzt_args_flag(args, "quiet")) say_plan(s);
    if (!lzt_args_flag(args, "quiet") && forecast.price.seconds > 0)
        lzt_talk("predicted: %.4g s a step, %.1f MiB resident", forecast.price.seconds,
                 (double)forecast.rss_bytes / 1048576.0);
    status = lzt_session_open_engine(s, NULL, err);
    if (!status) status = train(args, s, &forecast, lock, err);
    if (!lzt_args_flag(args, "quiet")) lzt_data_say_lazy(s->train, "data");
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    lzt_config config;
    lzt_status status = load_config(args, &config, err);
    if (status) return status;
    catch_signals();
    lzt_session session = {.config = &config};
    int lock = -1;
    status = run_session(args, &session, &lock, err);
    lzt_session_close(&session);
    if (lock >= 0) close(lock);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_train = {
    .name = "train",
    .summary = "fine-tune a model as a config says",
    .example = "lazytrain train config.yaml --max_steps 40 --memory.device_cap 200MiB",
    .details = "Any key of the config can be overridden as --KEY VALUE. The same command on an output_dir that holds a "
               "complete checkpoint goes on from it. No other run may use that directory meanwhile. SIGINT and SIGTERM "
               "save the last "
               "whole step and exit with 75.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .overrides = true,
    .run = run};
