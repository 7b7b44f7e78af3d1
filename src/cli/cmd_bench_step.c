/* lazytrain bench step: tokens per second of whole training steps, and where the time goes by operator. */
#include "cli/commands.h"
#include "cli/forecast.h"
#include "cli/session.h"
#include "cli/talk.h"
#include "base/clock.h"
#include "base/resident.h"
#include "base/rng.h"
#include "lazytrain/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const lzt_option options[] = {
    {.name = "model", .argument = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "the model's directory"},
    {.name = "batch", .argument = "N", .type = LZT_OPTION_UINT, .unit = "rows", .fallback = "4", .help = "rows a step"},
    {.name = "seq",
     .argument = "N",
     .type = LZT_OPTION_UINT,
     .unit = "tokens",
     .fallback = "512",
     .help = "of each row"},
    {.name = "dtype",
     .argument = "TYPE",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .help = "weights and activations; default: the directory's own"},
    {.name = "steps", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "5", .help = "steps that are timed"},
    {.name = "warmup", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "2", .help = "steps before, not timed"},
    {.name = "plan",
     .argument = "PLAN",
     .type = LZT_OPTION_TEXT,
     .fallback = "auto",
     .help = "auto, baseline, or a plan.json; auto without a cap keeps everything on the device"},
    {.name = "device-cap", .argument = "SIZE", .type = LZT_OPTION_SIZE, .fallback = "0", .help = "0: none"},
    {.name = "link-gbps",
     .argument = "X",
     .type = LZT_OPTION_TEXT,
     .fallback = "0",
     .help = "throttle copies to X GB/s"},
    {.name = "compute-slowdown", .argument = "X", .type = LZT_OPTION_TEXT, .fallback = "1", .help = "stretch compute"},
    {.name = "profile",
     .argument = "FILE",
     .type = LZT_OPTION_PATH,
     .help = "say beside it what this profile predicts"},
    LZT_OPTION_JSON,
};

/* Rows of random ids, every position trained. */
static void fill(lzt_micro_batch *batch, uint64_t rows, uint64_t length, uint64_t vocabulary)
{
    batch->token_count = rows * length;
    batch->document_count = rows;
    batch->loss_count = rows * (length - 1);
    batch->loss_weight = (double)batch->loss_count;
    for (uint64_t i = 0; i < batch->token_count; i++) {
        batch->ids[i] = (int32_t)lzt__rng_below(1, 0, i, vocabulary);
        batch->position[i] = (int32_t)(i % length);
    }
    for (uint64_t i = 0; i < batch->token_count; i++)
        batch->target[i] = i % length + 1 < length ? batch->ids[i + 1] : -1;
    for (uint64_t i = 0; i < batch->token_count; i++) batch->weight[i] = batch->target[i] < 0 ? 0 : 1;
    for (uint64_t r = 0; r <= rows; r++) batch->document_begin[r] = (int32_t)(r * length);
}

/* Seconds, operations and bytes of one operator over the timed steps. */
typedef struct operator_total {
    const char *name;
    double seconds, flops, bytes;
} operator_total;

typedef struct bench {
    lzt_session *session;
    lzt_micro_batch batch;
    uint64_t steps, warmup;
    double *seconds;    /* [steps] */
    double *over_bound; /* [steps] each over its own lower bound: simulated with unlimited buffers */
    double *start, *end;
    operator_total operators[LZT_OP_COUNT + LZT_HOST_COUNT + LZT_LANE_COUNT];
    uint64_t peak_device_bytes, rss_bytes; /* the second: after the last step */
    bool has_forecast;
    lzt_forecast forecast;
    double simulated, unlimited; /* of the last step's durations */
} bench;

static operator_total *total_of(bench *b, const lzt_task *t)
{
    if (t->op) return &b->operators[t->op];
    if (t->host_op) return &b->operators[LZT_OP_COUNT + t->host_op];
    return &b->operators[LZT_OP_COUNT + LZT_HOST_COUNT + t->lane];
}

static const char *name_of(const lzt_task *t)
{
    if (t->op) return lzt_op_name(t->op);
    return t->host_op ? lzt_host_op_name(t->host_op) : lzt_lane_name(t->lane);
}

/* lzt_op_flops takes the tokens for one document; attention over rows of equal length is that many times less. */
static double operations(const lzt_kern_call *call, const lzt_micro_batch *batch)
{
    bool attention = call->op == LZT_OP_ATTENTION_FWD || call->op == LZT_OP_ATTENTION_BWD;
    double flops = lzt_op_flops(call, batch->token_count);
    return attention ? flops / (double)batch->document_count : flops;
}

static lzt_status add_operators(bench *b, bool update, lzt_error *err)
{
    const lzt_program *program = lzt_engine_program(b->session->engine, LZT_VARIANT_SINGLE, update);
    const lzt_program_info *p = lzt_program_get_info(program);
    double *start = calloc(2 * (size_t)p->task_count + 1, sizeof *start), *end = start + p->task_count;
    if (!start) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the tasks' times");
    lzt_engine_times(b->session->engine, LZT_VARIANT_SINGLE, update, start, end);
    for (uint32_t i = 0; i < p->task_count; i++) {
        const lzt_task *t = &p->task[i];
        operator_total *total = total_of(b, t);
        lzt_kern_call call = {.op = t->op, .dtype = t->dtype, .grad_dtype = t->grad_dtype};
        memcpy(call.dim, t->dim, sizeof call.dim);
        /* What an operator computes may depend on which operands are there; any address will do. */
        for (uint32_t k = 0; t->op && k < t->operand_count; k++)
            if (p->operand[t->first_operand + k].slot < LZT_KERN_PTRS)
                call.ptr[p->operand[t->first_operand + k].slot] = b;
        total->name = name_of(t);
        total->seconds += end[i] - start[i];
        if (t->op) total->flops += operations(&call, &b->batch);
        for (uint32_t k = 0; k < t->operand_count; k++) total->bytes += (double)p->operand[t->first_operand + k].bytes;
        end[i] -= start[i];
    }
    b->simulated = lzt_program_simulate(program, end, false, NULL, NULL);
    b->unlimited = lzt_program_simulate(program, end, true, NULL, NULL);
    free(start);
    return LZT_OK;
}

static lzt_status run_steps(bench *b, lzt_error *err)
{
    lzt_engine *engine = b->session->engine;
    lzt_run_result result;
    for (uint64_t i = 0; i < b->warmup + b->steps; i++) {
        double n = (double)(i + 1);
        bool update = lzt_engine_pending(engine);
        lzt_step_scalars scalars = {.lr = 1e-6,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .bias_correction1 = 1 - pow(0.9, n),
                                    .bias_correction2 = 1 - pow(0.999, n),
                                    .max_grad_norm = 1.0};
        uint64_t begin = lzt__clock_ns();
        lzt_engine_set_batch(engine, &b->batch, 1.0f / (float)b->batch.loss_weight);
        lzt_engine_set_scalars(engine, &scalars);
        lzt_status status = lzt_engine_run(engine, LZT_VARIANT_SINGLE, &result, err);
        if (status) return status;
        if (i < b->warmup) continue;
        b->seconds[i - b->warmup] = lzt__clock_seconds(lzt__clock_ns() - begin);
        status = add_operators(b, update, err);
        if (status) return status;
        b->over_bound[i - b->warmup] = b->seconds[i - b->warmup] / b->unlimited;
    }
    lzt_dev_info info;
    lzt_dev_get_info(lzt_engine_dev(engine), &info);
    b->peak_device_bytes = info.peak_bytes[LZT_SPACE_DEVICE];
    b->rss_bytes = lzt__resident_bytes();
    return lzt_engine_drain(engine, NULL, err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of sorted values: the middle one, or the mean of the two. */
static double median_of(const double *sorted, uint64_t count)
{
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static lzt_status print(const bench *b, const char *kernels, bool json, lzt_error *err)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(b->seconds, b->steps, sizeof *b->seconds, by_value);
    qsort(b->over_bound, b->steps, sizeof *b->over_bound, by_value);
    double median = median_of(b->seconds, b->steps), rate = (double)b->batch.token_count / median;
    if (!json)
        printf("%.1f tokens/s, %.3f s a step (%.3f to %.3f, n %llu), %s\n", rate, median, b->seconds[0],
               b->seconds[b->steps - 1], (unsigned long long)b->steps, kernels);
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof b->operators / sizeof *b->operators; i++) {
        const operator_total *o = &b->operators[i];
        if (!o->name) continue;
        double steps = (double)b->steps;
        if (!json)
            printf("%-16s %9.4f s  %8.1f GFLOP/s  %7.2f GB/s\n", o->name, o->seconds / steps,
                   o->seconds > 0 ? o->flops / o->seconds * 1e-9 : 0,
                   o->seconds > 0 ? o->bytes / o->seconds * 1e-9 : 0);
        json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:f}", "name", o->name, "seconds", o->seconds / steps,
                                              "flops", o->flops / steps, "bytes", o->bytes / steps));
    }
    json_t *out = json_pack(
        "{s:f,s:{s:f,s:f,s:f,s:I},s:I,s:I,s:I,s:f,s:f,s:{s:f,s:f},s:s,s:o}", "tokens_per_second", rate, "step_seconds",
        "median", median, "min", b->seconds[0], "max", b->seconds[b->steps - 1], "n", (json_int_t)b->steps,
        "peak_rss_bytes", (json_int_t)usage.ru_maxrss * 1024, "peak_device_bytes", (json_int_t)b->peak_device_bytes,
        "planned_device_bytes", (json_int_t)b->session->plan.device_bytes, "simulated_seconds", b->simulated,
        "unlimited_seconds", b->unlimited, "over_bound", "median", median_of(b->over_bound, b->steps), "max",
        b->over_bound[b->steps - 1], "kernels", kernels, "operators", list);
    json_object_set_new(out, "rss_bytes", json_integer((json_int_t)b->rss_bytes));
    if (b->has_forecast) {
        json_object_set_new(out, "predicted_step_seconds", json_real(b->forecast.price.seconds));
        json_object_set_new(out, "predicted_rss_bytes", json_integer((json_int_t)b->forecast.rss_bytes));
        if (!json)
            printf("predicted: %.3f s, resident %.1f MiB; resident %.1f MiB\n", b->forecast.price.seconds,
                   (double)b->forecast.rss_bytes / 1048576.0, (double)b->rss_bytes / 1048576.0);
    }
    if (json) return lzt_talk_json(out, err);
    json_decref(out);
    return LZT_OK;
}

static lzt_status predict(bench *b, const char *path, uint64_t rows, lzt_error *err)
{
    lzt_profile profile;
    lzt_status status = lzt_profile_read(path, &profile, err);
    if (status) return status;
    status = lzt_forecast_step(b->session, &profile, rows, NULL, &b->forecast, err);
    b->has_forecast = !status;
    lzt_profile_fini(&profile);
    return status;
}

static lzt_status measure(const lzt_args *args, bench *b, lzt_error *err)
{
    lzt_session *s = b->session;
    uint64_t rows = lzt_args_uint(args, "batch"), length = lzt_args_uint(args, "seq");
    if (!rows || length < 2 || !b->steps)
        return lzt_fail(err, LZT_ERR_USAGE, "bench step", "needs at least one row, two tokens and one step");
    lzt_status status = lzt_session_open_model(s, lzt_args_text(args, "model"), err);
    if (status) return status;
    lzt_dtype dtype = lzt_session_dtype(s, lzt_args_text(args, "dtype"));
    status = lzt_session_open_kernels(s, dtype, rows * length, 1, true, err);
    if (!status) status = lzt_session_choose_plan(s, err);
    char kernels[128] = "";
    if (!status) snprintf(kernels, sizeof kernels, "%s", s->kern->ops->description(s->kern));
    if (!status && lzt_args_text(args, "profile")) status = predict(b, lzt_args_text(args, "profile"), rows, err);
    if (!status) status = lzt_session_open_engine(s, NULL, err);
    if (status) return status;
    void *memory = calloc(1, lzt_micro_batch_bytes(rows * length));
    b->seconds = calloc(b->steps, sizeof *b->seconds);
    b->over_bound = calloc(b->steps, sizeof *b->over_bound);
    if (!memory || !b->seconds || !b->over_bound) {
        free(memory);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a batch");
    }
    b->batch = lzt_micro_batch_over(memory, rows * length);
    fill(&b->batch, rows, length, s->info->vocabulary);
    status = run_steps(b, err);
    free(memory);
    if (!status) status = print(b, kernels, lzt_args_flag(args, "json"), err);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    char cap[32];
    snprintf(cap, sizeof cap, "%llu", (unsigned long long)lzt_args_size(args, "device-cap"));
    const lzt_config_override given[] = {{"memory.device_cap", cap},
                                         {"memory.plan", lzt_args_text(args, "plan")},
                                         {"memory.link_gbps", lzt_args_text(args, "link-gbps")},
                                         {"memory.compute_slowdown", lzt_args_text(args, "compute-slowdown")}};
    lzt_config config;
    lzt_status status = lzt_config_load(NULL, given, LZT_COUNT(given), &config, err);
    if (status) return status;
    lzt_session session = {.config = &config};
    bench b = {.session = &session, .steps = lzt_args_uint(args, "steps"), .warmup = lzt_args_uint(args, "warmup")};
    status = measure(args, &b, err);
    free(b.seconds);
    free(b.over_bound);
    lzt_session_close(&session);
    lzt_config_fini(&config);
    return status;
}

const lzt_command lzt_command_bench_step = {
    .name = "bench step",
    .summary = "time whole training steps",
    .example = "lazytrain bench step --model models/smollm2-135m --batch 4 --seq 512 --dtype bf16 --steps 5 --json",
    .details = "Random ids, every position trained, AdamW included. Compare runs only within one interleaved "
               "measurement (bench/step_vs_torch does that); absolute times are not stable on shared machines.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run};
