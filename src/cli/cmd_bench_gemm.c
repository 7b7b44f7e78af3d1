/* lazytrain bench gemm: the three products of a linear layer, beside the multiply-add peak of this CPU.
 *
 * Each repeat measures the peak loop and the product one after the other, so that a busy machine slows both. Shares are
 * of the best of each, by wall clock and by CPU time; the latter stays honest when other processes take the cores.
 */
#include "cli/commands.h"
#include "cli/talk.h"
#include "lazytrain/kern.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const lzt_option options[] = {
    {.name = "shape",
     .argument = "NxK",
     .type = LZT_OPTION_TEXT,
     .help = "outputs x inputs of one layer; without it, those of SmolLM2-135M"},
    {.name = "tokens", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "2048", .help = "rows of the activations"},
    {.name = "dtype", .type = LZT_OPTION_CHOICE, .choices = "f32|bf16", .fallback = "f32", .help = "of all operands"},
    {.name = "gemm",
     .type = LZT_OPTION_CHOICE,
     .choices = "auto|own|onednn",
     .fallback = "auto",
     .help = "which matrix product"},
    {.name = "isa", .argument = "NAME", .type = LZT_OPTION_TEXT, .help = "instruction set; see LZT_CPU_ISA"},
    {.name = "threads", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "0", .help = "0: one a core"},
    {.name = "repeats", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "7", .help = "the best counts"},
    LZT_OPTION_JSON,
};

/* seconds by wall clock and by CPU time of the process */
typedef struct stamp {
    double wall, cpu;
} stamp;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stamp stamp_now(void)
{
    return (stamp){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

/* operations a second, the best seen; by CPU time summed over the threads */
typedef struct rate {
    double wall, cpu;
} rate;

static void rate_take(rate *best, double operations, stamp begin)
{
    stamp end = stamp_now();
    double wall = operations / (end.wall - begin.wall), cpu = operations / (end.cpu - begin.cpu);
    if (wall > best->wall) best->wall = wall;
    if (cpu > best->cpu) best->cpu = cpu;
}

typedef struct bench {
    lzt_kern *kern;
    lzt_dtype dtype;
    uint64_t tokens, repeats;
    bool json;
    json_t *rows;
    void *batch, *activations, *weights, *outputs, *scratch;
    uint64_t scratch_bytes;
} bench;

static void *zeroed(uint64_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (p) memset(p, 0, bytes);
    return p;
}

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, "bench gemm", "no memory for the operands");
}

static void report(bench *b, const lzt_kern_call *call, rate got, rate peak)
{
    const char *name = lzt_op_name(call->op);
    if (b->json)
        json_array_append_new(b->rows,
                              json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I}", "operator", name, "tokens",
                                        (json_int_t)call->dim[0], "inputs", (json_int_t)call->dim[1], "outputs",
                                        (json_int_t)call->dim[2], "flop_per_s", got.wall, "peak_flop_per_s", peak.wall,
                                        "share", got.wall / peak.wall, "share_cpu_time", got.cpu / peak.cpu,
                                        "scratch_bytes", (json_int_t)call->scratch_bytes));
    else
        printf("%-13s %6llu x %-6llu %8.1f GFLOP/s %6.1f %% of peak %6.1f %% by CPU time\n", name,
               (unsigned long long)call->dim[2], (unsigned long long)call->dim[1], got.wall / 1e9,
               100 * got.wall / peak.wall, 100 * got.cpu / peak.cpu);
}

static lzt_status measure_call(bench *b, lzt_kern_call call, lzt_error *err)
{
    enum { PEAK_ROUNDS = 2000000 };
    rate got = {0}, peak = {0};
    call.dtype = call.grad_dtype = b->dtype;
    call.scratch = b->scratch;
    call.scratch_bytes = lzt_kern_scratch_bytes(b->kern, &call);
    if (call.scratch_bytes > b->scratch_bytes) {
        free(b->scratch);
        b->scratch_bytes = call.scratch_bytes;
        call.scratch = b->scratch = zeroed(call.scratch_bytes);
        if (!b->scratch) return no_memory(err);
    }
    for (uint64_t r = 0; r < b->repeats + 1; r++) { /* one to warm up */
        stamp begin = stamp_now();
        rate_take(&peak, lzt_kern_cpu_peak(b->kern, b->dtype, PEAK_ROUNDS), begin);
        begin = stamp_now();
        lzt_status status = lzt_kern_run(b->kern, &call, NULL, err);
        if (status) return status;
        if (r) rate_take(&got, lzt_op_flops(&call, call.dim[0]), begin);
    }
    report(b, &call, got, peak);
    return LZT_OK;
}

/* activations: x and dy; outputs: y, dx or dw */
static lzt_status measure_shape(bench *b, uint64_t n, uint64_t k, lzt_error *err)
{
    uint64_t most = n > k ? n : k, size = lzt_dtype_bytes(b->dtype);
    uint64_t rows = b->tokens > most ? b->tokens : most;
    b->activations = zeroed(2 * b->tokens * most * size);
    b->weights = zeroed(n * k * size);
    b->outputs = zeroed(rows * most * size);
    lzt_status status = LZT_OK;
    if (!b->activations || !b->weights || !b->outputs) status = no_memory(err);
    char *x = b->activations, *dy = x + b->tokens * most * size;
    lzt_kern_call calls[] = {
        {.op = LZT_OP_LINEAR_FWD, .ptr = {b->batch, x, b->weights, NULL, NULL, b->outputs}},
        {.op = LZT_OP_LINEAR_BWD_X, .ptr = {b->batch, dy, b->weights, b->outputs}},
        {.op = LZT_OP_LINEAR_BWD_W, .ptr = {b->batch, dy, x, b->outputs}},
    };
    for (int i = 0; i < LZT_COUNT(calls) && !status; i++) {
        calls[i].dim[0] = b->tokens, calls[i].dim[1] = k, calls[i].dim[2] = n;
        status = measure_call(b, calls[i], err);
    }
    free(b->activations), free(b->weights), free(b->outputs);
    return status;
}

static lzt_status measure(bench *b, const char *shape, lzt_error *err)
{
    static const unsigned smollm2[][2] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
    unsigned long long n, k;
    char rest;
    if (shape && (sscanf(shape, "%llux%llu%c", &n, &k, &rest) != 2 || !n || !k || n > 1 << 24 || k > 1 << 24))
        return lzt_fail(err, LZT_ERR_USAGE, "--shape", "\"%s\" is not of the form 3072x576", shape);
    if (shape) return measure_shape(b, n, k, err);
    lzt_status status = LZT_OK;
    for (int i = 0; i < LZT_COUNT(smollm2) && !status; i++)
        status = measure_shape(b, smollm2[i][0], smollm2[i][1], err);
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    bench b = {.tokens = lzt_args_uint(args, "tokens"), .repeats = lzt_args_uint(args, "repeats")};
    if (!b.tokens || b.tokens > 1 << 20 || !b.repeats)
        return lzt_fail(err, LZT_ERR_USAGE, "bench gemm", "needs 1 to 1048576 tokens and at least one repeat");
    b.dtype = strcmp(lzt_args_text(args, "dtype"), "bf16") ? LZT_DTYPE_F32 : LZT_DTYPE_BF16;
    b.json = lzt_args_flag(args, "json");
    lzt_kern_cpu_options kern = LZT_KERN_CPU_OPTIONS_INIT;
    kern.threads = (uint32_t)lzt_args_uint(args, "threads");
    kern.gemm = lzt_args_text(args, "gemm");
    kern.isa = lzt_args_text(args, "isa");
    lzt_status status = lzt_kern_cpu_create(&kern, &b.kern, err);
    if (status) return status;
    const char *description = b.kern->ops->description(b.kern);
    b.rows = json_array();
    b.batch = zeroed(lzt_batch_bytes(b.tokens));
    if (!b.batch) status = no_memory(err);
    if (b.batch) ((lzt_batch_header *)b.batch)->token_count = (uint32_t)b.tokens;
    if (!b.json) printf("%s, %s, %llu tokens\n", description, lzt_dtype_name(b.dtype), (unsigned long long)b.tokens);
    if (!status) status = measure(&b, lzt_args_text(args, "shape"), err);
    if (!status && b.json)
        status = lzt_talk_json(
            json_pack("{s:s, s:s, s:O}", "kernels", description, "dtype", lzt_dtype_name(b.dtype), "products", b.rows),
            err);
    json_decref(b.rows);
    free(b.batch), free(b.scratch);
    lzt_kern_destroy(b.kern);
    return status;
}

const lzt_command lzt_command_bench_gemm = {
    .name = "bench gemm",
    .summary = "measure the matrix products of linear layers against this CPU's peak",
    .example = "lazytrain bench gemm --dtype bf16 --tokens 2048 --json",
    .details = "Per shape: y = x w^T (linear_fwd), dx = dy w (linear_bwd_x), dw = dy^T x (linear_bwd_w). The peak is a "
               "loop of multiply-adds in registers, run in turn with each product; in bf16 on a CPU with BF16 dot "
               "products it is theirs, and AMX tiles exceed it.",
    .option = options,
    .option_count = LZT_COUNT(options),
    .run = run,
};
