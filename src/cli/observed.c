/* A run's own times as a profile: see observed.h. */
#include "cli/observed.h"

#include "cli/probe_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 32, ENTRIES_MAX = 512, NO_ENTRY = UINT16_MAX };

/* An entry's figure of each of the last steps. */
typedef struct entry {
    lzt_measurement name;
    double sample[WINDOW];
    uint64_t count; /* of samples ever */
    double seconds; /* of the step in hand */
    uint64_t tasks;
} entry;

typedef struct watched {
    uint16_t *entry_of;  /* [task_count] */
    double *start, *end; /* [task_count] */
    double seen_end;     /* of the run that was looked at last */
} watched;

struct lzt_observer {
    const lzt_session *s;
    lzt_price_options price;
    watched program[LZT_VARIANT_COUNT][2];
    entry entry[ENTRIES_MAX];
    uint32_t entry_count;
};

lzt_status lzt_observer_create(const lzt_session *s, lzt_observer **observer, lzt_error *err)
{
    lzt_observer *o = calloc(1, sizeof *o);
    if (!o) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to watch the run's times");
    o->s = s;
    o->price = lzt_session_price_options(s, NULL, s->config->per_device_train_batch_size);
    *observer = o;
    return LZT_OK;
}

void lzt_observer_destroy(lzt_observer *o)
{
    if (!o) return;
    for (int v = 0; v < LZT_VARIANT_COUNT; v++)
        for (int u = 0; u < 2; u++) {
            free(o->program[v][u].entry_of);
            free(o->program[v][u].start);
        }
    free(o);
}

static uint16_t find(lzt_observer *o, const lzt_measurement *m)
{
    for (uint32_t i = 0; i < o->entry_count; i++) {
        const lzt_measurement *have = &o->entry[i].name;
        if (have->kind == m->kind && have->size == m->size && !strcmp(have->name, m->name)) return (uint16_t)i;
    }
    if (o->entry_count == ENTRIES_MAX) return NO_ENTRY;
    o->entry[o->entry_count].name = *m;
    return (uint16_t)o->entry_count++;
}

/* False without memory: the program is then not watched. */
static bool prepare(lzt_observer *o, watched *w, const lzt_program_info *p)
{
    if (w->entry_of) return true;
    w->entry_of = calloc((size_t)p->task_count + 1, sizeof *w->entry_of);
    w->start = calloc(2 * ((size_t)p->task_count + 1), sizeof *w->start);
    if (!w->entry_of || !w->start) {
        free(w->entry_of);
        free(w->start);
        *w = (watched){0};
        return false;
    }
    w->end = w->start + p->task_count;
    for (uint32_t i = 0; i < p->task_count; i++) {
        lzt_measurement m;
        w->entry_of[i] = lzt_price_entry(p, &p->task[i], &o->price, &m) ? find(o, &m) : NO_ENTRY;
    }
    return true;
}

static void look_at(lzt_observer *o, lzt_variant variant, bool update)
{
    watched *w = &o->program[variant][update];
    const lzt_program *program = lzt_engine_program(o->s->engine, variant, update);
    if (!program || !lzt_engine_has_run(o->s->engine, variant, update)) return;
    const lzt_program_info *p = lzt_program_get_info(program);
    if (!prepare(o, w, p)) return;
    double last = 0;
    lzt_engine_times(o->s->engine, variant, update, w->start, w->end);
    for (uint32_t i = 0; i < p->task_count; i++)
        if (w->end[i] > last) last = w->end[i];
    if (last == w->seen_end) return; /* it has not run since */
    w->seen_end = last;
    for (uint32_t i = 0; i < p->task_count; i++) {
        if (w->entry_of[i] == NO_ENTRY) continue;
        o->entry[w->entry_of[i]].seconds += w->end[i] - w->start[i];
        o->entry[w->entry_of[i]].tasks++;
    }
}

void lzt_observer_step(void *arg, const lzt_step_metrics *m)
{
    lzt_observer *o = arg;
    uint64_t full = o->price.tokens * o->s->caps.micro_batches;
    bool counts = m->tokens_real == full;
    for (int v = 0; v < LZT_VARIANT_COUNT; v++)
        for (int update = 0; update < 2; update++)
            if (v <= LZT_VARIANT_LAST) /* those that train */
                look_at(o, (lzt_variant)v, update);
    for (uint32_t i = 0; i < o->entry_count; i++) {
        entry *e = &o->entry[i];
        double each = e->tasks ? e->seconds / (double)e->tasks : 0;
        if (counts && each > 0)
            e->sample[e->count++ % WINDOW] = e->name.kind == LZT_MEASURE_TIME ? each : (double)e->name.size / each;
        e->seconds = 0;
        e->tasks = 0;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool saw(const lzt_observer *o, const lzt_measurement *m)
{
    for (uint32_t i = 0; i < o->entry_count; i++) {
        const entry *e = &o->entry[i];
        if (e->name.kind == m->kind && e->name.size == m->size && !strcmp(e->name.name, m->name)) return e->count > 0;
    }
    return false;
}

static bool saw_program(const lzt_observer *o, lzt_variant variant, bool update)
{
    const lzt_program *program = lzt_engine_program(o->s->engine, variant, update);
    if (!program) return false;
    const lzt_program_info *p = lzt_program_get_info(program);
    for (uint32_t i = 0; i < p->task_count; i++) {
        lzt_measurement m;
        if (lzt_price_entry(p, &p->task[i], &o->price, &m) && !saw(o, &m)) return false;
    }
    return true;
}

bool lzt_observer_saw_all(const lzt_observer *o)
{
    uint64_t n = o->s->caps.micro_batches;
    return saw_program(o, n > 1 ? LZT_VARIANT_FIRST : LZT_VARIANT_SINGLE, true) &&
           (n < 3 || saw_program(o, LZT_VARIANT_MIDDLE, false)) && (n < 2 || saw_program(o, LZT_VARIANT_LAST, false));
}

lzt_status lzt_observer_profile(const lzt_observer *o, lzt_profile *profile, lzt_error *err)
{
    lzt_status status = LZT_OK;
    lzt_dev_info info;
    *profile = (lzt_profile){0};
    lzt_dev_get_info(lzt_engine_dev(o->s->engine), &info);
    snprintf(profile->machine, sizeof profile->machine, "%s", info.description);
    snprintf(profile->device, sizeof profile->device, "%s", o->s->device_text);
    profile->device_bytes = info.cap_bytes[LZT_SPACE_DEVICE];
    profile->host_bytes = info.cap_bytes[LZT_SPACE_HOST];
    for (uint32_t i = 0; i < o->entry_count && !status; i++) {
        const entry *e = &o->entry[i];
        double sorted[WINDOW];
        uint64_t n = e->count < WINDOW ? e->count : WINDOW;
        if (!n) continue;
        memcpy(sorted, e->sample, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_value);
        lzt_measurement m = e->name;
        m.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
        m.min = sorted[0];
        m.max = sorted[n - 1];
        m.count = n;
        status = lzt_profile_add(profile, &m, err);
    }
    if (status) lzt_profile_fini(profile);
    return status;
}
