/* The CPU backend: creation, choice of instruction set and of the matrix product, dispatch. */
#include "kern/cpu/kern_cpu.h"

#include "kern/cpu/onednn.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct operator_entry {
    lzt_status (*run)(lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err);
    uint64_t (*scratch_bytes)(const lzt_kern_cpu *kern, const lzt_kern_call *call);
} operator_entry;

#define ENTRY(upper, lower) [LZT_OP_##upper] = {lzt__cpu_##lower, lzt__cpu_##lower##_scratch},

static const operator_entry operators[LZT_OP_COUNT] = {LZT_KERN_CPU_OPS(ENTRY)};

static uint64_t scratch_bytes(const lzt_kern *kern, const lzt_kern_call *call)
{
    assert(call->op > LZT_OP_NONE && call->op < LZT_OP_COUNT);
    if (!operators[call->op].scratch_bytes) return 0; /* an operator that no backend has */
    return operators[call->op].scratch_bytes((const lzt_kern_cpu *)kern, call);
}

static bool computable(lzt_dtype dtype)
{
    return dtype == LZT_DTYPE_F32 || dtype == LZT_DTYPE_BF16;
}

static lzt_status check(const lzt_kern_cpu *kern, const lzt_kern_call *call, lzt_error *err)
{
    const char *name = lzt_op_name(call->op);
    if (!operators[call->op].run)
        return lzt_fail(err, LZT_ERR_USAGE, name, "has no kernel: such layers can be planned, not run");
    if (!computable(call->dtype) || !computable(call->grad_dtype))
        return lzt_fail(err, LZT_ERR_INTERNAL, name, "dtype %s with gradients in %s: only F32 and BF16 are computed",
                        lzt_dtype_name(call->dtype), lzt_dtype_name(call->grad_dtype));
    uint64_t need = scratch_bytes(&kern->base, call);
    if (call->scratch_bytes < need || (need && (!call->scratch || (uintptr_t)call->scratch % 64)))
        return lzt_fail(err, LZT_ERR_INTERNAL, name, "scratch of %llu bytes at %p; it needs %llu, 64-byte aligned",
                        (unsigned long long)call->scratch_bytes, call->scratch, (unsigned long long)need);
    if (call->op == LZT_OP_CAST) return LZT_OK;
    uint64_t tokens = lzt__batch(call)->token_count;
    if (!tokens || tokens > call->dim[0])
        return lzt_fail(err, LZT_ERR_INTERNAL, name, "%llu tokens in a batch of capacity %llu",
                        (unsigned long long)tokens, (unsigned long long)call->dim[0]);
    return LZT_OK;
}

static lzt_status run(lzt_kern *kern, const lzt_kern_call *call, void *native_stream, lzt_error *err)
{
    (void)native_stream;
    assert(call->op > LZT_OP_NONE && call->op < LZT_OP_COUNT);
    lzt_status status = check((lzt_kern_cpu *)kern, call, err);
    return status ? status : operators[call->op].run((lzt_kern_cpu *)kern, call, err);
}

static const char *description(const lzt_kern *kern)
{
    return ((const lzt_kern_cpu *)kern)->description;
}

static void destroy(lzt_kern *base)
{
    lzt_kern_cpu *kern = (lzt_kern_cpu *)base;
    lzt__onednn_close(kern->onednn);
    lzt__team_destroy(kern->team);
    free(kern);
}

static const lzt_kern_ops cpu_ops = {destroy, scratch_bytes, run, description};

static uint32_t affinity_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > 1024 ? 1024 : (uint32_t)count;
}

/* auto: oneDNN where it is measured to be the faster one (AVX-512, and BF16 only with the instructions for it), when it
 * can be loaded; the description says which it is. */
static lzt_status choose_gemm(lzt_kern_cpu *kern, const char *gemm, lzt_error *err)
{
    if (gemm && !strcmp(gemm, "own")) return LZT_OK;
    if (gemm && !strcmp(gemm, "onednn")) {
        kern->onednn_f32 = kern->onednn_bf16 = true;
        return lzt__onednn_open(kern->isa, kern->threads, &kern->onednn, err);
    }
    if (gemm && strcmp(gemm, "auto")) {
        lzt_fail(err, LZT_ERR_USAGE, "kernel option gemm", "unknown matrix product \"%s\"", gemm);
        lzt_hint(err, "known are own, onednn and auto");
        return LZT_ERR_USAGE;
    }
    if (kern->isa < LZT_ISA_AVX512 || lzt__onednn_open(kern->isa, kern->threads, &kern->onednn, NULL)) return LZT_OK;
    kern->onednn_f32 = true;
    kern->onednn_bf16 = kern->isa >= LZT_ISA_AVX512_BF16;
    return LZT_OK;
}

static void describe(lzt_kern_cpu *kern)
{
    const char *gemm = !kern->onednn ? "own-gemm" : !kern->onednn_bf16 ? "onednn-f32 own-bf16" : "onednn";
    snprintf(kern->description, sizeof kern->description, "cpu %s %s %u thread%s", lzt__isa_name(kern->isa), gemm,
             kern->threads, kern->threads == 1 ? "" : "s");
}

lzt_status lzt_kern_cpu_create(const lzt_kern_cpu_options *options, lzt_kern **out, lzt_error *err)
{
    lzt_kern_cpu_options given = LZT_KERN_CPU_OPTIONS_INIT;
    if (options) memcpy(&given, options, options->struct_bytes < sizeof given ? options->struct_bytes : sizeof given);
    lzt_kern_cpu *kern = calloc(1, sizeof *kern);
    if (!kern) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the CPU backend");
    kern->base.ops = &cpu_ops;
    kern->threads = given.threads ? given.threads : affinity_cores();
    lzt_status status = lzt__isa_choose(given.isa, &kern->isa, err);
    if (!status) status = lzt__team_create(kern->threads, &kern->team, err);
    if (!status) status = choose_gemm(kern, given.gemm, err);
    if (status) {
        destroy(&kern->base);
        return status;
    }
    kern->build = lzt__isa_build(kern->isa);
    describe(kern);
    *out = &kern->base;
    return LZT_OK;
}

void lzt_kern_destroy(lzt_kern *kern)
{
    if (kern) kern->ops->destroy(kern);
}

lzt_status lzt_kern_run(lzt_kern *kern, const lzt_kern_call *call, void *native_stream, lzt_error *err)
{
    return kern->ops->run(kern, call, native_stream, err);
}

uint64_t lzt_kern_scratch_bytes(const lzt_kern *kern, const lzt_kern_call *call)
{
    return kern->ops->scratch_bytes(kern, call);
}
