/* Test helper: a machine by hand. Every entry that pricing a program asks for, at the rates given. */
#ifndef LZT_SOLVE_HAND_PROFILE_H
#define LZT_SOLVE_HAND_PROFILE_H

#include "lazytrain/auto_plan.h"
#include "lazytrain/step_plan.h"

#include <string.h>

typedef struct hand_machine {
    double flops_per_s, device_bytes_per_s, link_bytes_per_s, host_bytes_per_s;
} hand_machine;

static inline double hand_value(const hand_machine *m, const lzt_program_info *p, const lzt_task *t,
                                const lzt_measurement *entry, uint64_t documents)
{
    double bytes = 0;
    for (uint32_t i = 0; i < t->operand_count; i++) bytes += (double)p->operand[t->first_operand + i].bytes;
    if (entry->kind == LZT_MEASURE_RATE) return t->host_op ? m->host_bytes_per_s : m->link_bytes_per_s;
    lzt_kern_call call = {.op = t->op, .dtype = t->dtype};
    memcpy(call.dim, t->dim, sizeof call.dim);
    memcpy(call.real, t->real, sizeof call.real);
    call.ptr[4] = call.ptr[5] = &call;
    double share = t->op == LZT_OP_CAST ? 1 : (double)entry->size / (double)t->dim[0];
    return share *
           (lzt_op_flops(&call, t->dim[0]) / (double)documents / m->flops_per_s + bytes / m->device_bytes_per_s);
}

/* Adds what the program needs that the profile does not have yet. */
static inline lzt_status hand_add(lzt_profile *profile, const lzt_program *program, const lzt_price_options *price,
                                  const hand_machine *m, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        lzt_measurement entry;
        double seconds;
        if (!lzt_price_entry(p, &p->task[i], price, &entry)) continue;
        if (lzt_price_seconds(profile, entry.kind, entry.name, entry.size, &seconds)) continue;
        entry.median = entry.min = entry.max = hand_value(m, p, &p->task[i], &entry, price->documents);
        entry.count = 1;
        lzt_status status = lzt_profile_add(profile, &entry, err);
        if (status) return status;
    }
    return LZT_OK;
}

/* Adds every variant of a step under the options (whose price.profile is `profile`). */
static inline lzt_status hand_profile(const lzt_step_plan_options *o, const hand_machine *m, lzt_profile *profile,
                                      lzt_error *err)
{
    lzt_plan plan;
    lzt_state_layout *layout;
    lzt_status status = lzt_plan_baseline(o->model, &o->numerics, 1, &plan, err);
    if (status) return status;
    if (plan.layer_count > 1) plan.boundary[1] = LZT_TIER_CPU;
    status = lzt_state_layout_create(o->model, &o->numerics, true, &layout, err);
    for (int v = 0; v < 4 && !status; v++) {
        lzt_step_options step = {.model = o->model,
                                 .plan = &plan,
                                 .layout = layout,
                                 .kern = o->kern,
                                 .variant = (lzt_variant)v,
                                 .update = v < 2,
                                 .micro_batches = o->micro_batches,
                                 .frozen = o->frozen};
        lzt_program *program;
        status = lzt_step_compile(&step, &program, err);
        if (status) break;
        status = hand_add(profile, program, &o->price, m, err);
        lzt_program_destroy(program);
    }
    if (layout) lzt_state_layout_destroy(layout);
    lzt_plan_fini(&plan);
    return status;
}

#endif
