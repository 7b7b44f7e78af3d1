/* A whole step's price: its programs compiled, priced and put on the clock. See lazytrain/price.h. */
#include "lazytrain/price.h"

#include <stdlib.h>
#include <string.h>

typedef struct timetable {
    double *seconds, *start, *end;
    lzt_work *work;
    uint32_t *scratch;
} timetable;

static void timetable_free(timetable *t)
{
    free(t->seconds);
    free(t->work);
    free(t->scratch);
}

static lzt_status timetable_make(timetable *t, uint32_t tasks, lzt_error *err)
{
    size_t n = (size_t)tasks + 1;
    *t = (timetable){.seconds = calloc(3 * n, sizeof *t->seconds),
                     .work = calloc(n, sizeof *t->work),
                     .scratch = calloc(n, sizeof *t->scratch)};
    if (!t->seconds || !t->work || !t->scratch) {
        timetable_free(t);
        return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to price a program of %u tasks", tasks);
    }
    t->start = t->seconds + n;
    t->end = t->start + n;
    return LZT_OK;
}

/* The account of a simulated run: the same function as for a real one, on whole nanoseconds. */
static void account_of(const lzt_program *program, const timetable *t, double seconds, lzt_account *account)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        t->work[i].ready_ns = t->work[i].start_ns = (uint64_t)(t->start[i] * 1e9);
        t->work[i].end_ns = (uint64_t)(t->end[i] * 1e9);
    }
    lzt_program_account(program, t->work, 0, (uint64_t)(seconds * 1e9), t->scratch, account);
}

lzt_status lzt_price_program(const lzt_program *program, const lzt_price_options *options, double *start, double *end,
                             lzt_account *account, double *seconds, lzt_error *err)
{
    const lzt_program_info *p = lzt_program_get_info(program);
    lzt_contention contention;
    timetable t;
    lzt_status status = lzt_price_contention(options->profile, &contention, err);
    if (!status) status = timetable_make(&t, p->task_count, err);
    if (status) return status;
    status = lzt_price_tasks(program, options, t.seconds, err);
    if (!status) {
        *seconds = lzt_program_simulate_shared(program, t.seconds, &contention, t.start, t.end);
        if (*seconds < 0) status = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to simulate a program");
    }
    if (!status && start) memcpy(start, t.start, p->task_count * sizeof *start);
    if (!status && end) memcpy(end, t.end, p->task_count * sizeof *end);
    if (!status && account) account_of(program, &t, *seconds, account);
    timetable_free(&t);
    return status;
}

/* Prices one program of the step, `times` over. */
static lzt_status add_program(const lzt_step_options *step, lzt_variant variant, bool update, uint64_t times,
                              const lzt_price_options *options, lzt_step_price *price, lzt_error *err)
{
    lzt_step_options one = *step;
    lzt_program *program;
    lzt_account account;
    double seconds = 0;
    one.variant = variant;
    one.update = update;
    lzt_status status = lzt_step_compile(&one, &program, err);
    if (status) return status;
    status = lzt_price_program(program, options, NULL, NULL, &account, &seconds, err);
    lzt_program_destroy(program);
    for (uint64_t i = 0; !status && i < times; i++) {
        lzt_account_add(&price->account, &account);
        price->seconds += seconds;
    }
    return status;
}

lzt_status lzt_price_step(const lzt_step_options *step, const lzt_price_options *options, lzt_step_price *price,
                          lzt_error *err)
{
    uint64_t m = step->micro_batches;
    *price = (lzt_step_price){0};
    if (m <= 1) return add_program(step, LZT_VARIANT_SINGLE, true, 1, options, price, err);
    lzt_status status = add_program(step, LZT_VARIANT_FIRST, true, 1, options, price, err);
    if (!status && m > 2) status = add_program(step, LZT_VARIANT_MIDDLE, false, m - 2, options, price, err);
    if (!status) status = add_program(step, LZT_VARIANT_LAST, false, 1, options, price, err);
    return status;
}
