/* train --dry-run: see dry_run.h. */
#include "cli/dry_run.h"

#include "base/units.h"
#include "cli/forecast.h"
#include "cli/probe_list.h"
#include "cli/session_step.h"
#include "cli/talk.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what is there to go by ---- */

/* Tokens of a micro-batch as the config states them, where there are no rows to count. */
static lzt_status capacity_of_config(const lzt_session *s, uint64_t *capacity, lzt_error *err)
{
    const lzt_config *c = s->config;
    *capacity = c->numerics.micro_batch_tokens;
    if (!*capacity) *capacity = c->per_device_train_batch_size * c->max_seq_length;
    if (*capacity) return LZT_OK;
    lzt_fail(err, LZT_ERR_DATA, c->dataset, "is not there, and the config does not say how long a sequence is");
    return lzt_hint(err, "set max_seq_length, or numerics.micro_batch_tokens");
}

bool lzt_dry_run_lacks(const lzt_config *c, const char *path)
{
    bool registry = c->dataset_dir || !access("data/dataset_info.json", F_OK); /* path may be a name in it */
    return path && !registry && !strchr(path, ',') && access(path, F_OK) && errno == ENOENT;
}

/* Rows are read where they are there: then the capacity is the run's own. Else the config's word is taken. */
static lzt_status find_capacity(lzt_session *s, uint64_t *capacity, lzt_error *err)
{
    const lzt_config *c = s->config;
    if (!s->info->trainable_arch || lzt_dry_run_lacks(c, c->dataset)) {
        lzt_talk("note: no rows are read: sequences are taken to be max_seq_length tokens long");
        return capacity_of_config(s, capacity, err);
    }
    lzt_status status = lzt_session_open_data(s, err);
    if (status) return status;
    *capacity = lzt_batcher_capacity(s->batcher);
    return lzt_session_open_evaluation(s, capacity, err);
}

static lzt_status open_all(lzt_session *s, lzt_error *err)
{
    const lzt_config *c = s->config;
    uint64_t capacity;
    lzt_status status = lzt_session_open_model_to_plan(s, c->model_name_or_path, err);
    if (!status) status = find_capacity(s, &capacity, err);
    if (status) return status;
    return lzt_session_open_kernels(s, c->bf16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, capacity,
                                    c->gradient_accumulation_steps, true, err);
}

/* A plan of the source's model cannot be compiled: it has no step program of ours behind it. */
static bool is_source_plan(const lzt_plan *plan)
{
    return plan->problem != NULL;
}

static lzt_status refuse_architecture(const lzt_session *s, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_MODEL, s->config->model_name_or_path,
             "%s has no kernels yet: its step cannot be measured here", s->info->architecture);
    return lzt_hint(err, "name a profile as memory.profile, or a schedule of lazytrain plan as memory.plan");
}

#define QUICK_SECONDS 0.1

#define QUICK_FLOPS 1e12 /* a layer and three loss chunks, there and back: more is not measured on the way */

enum { DOCUMENT_MIN = 2 };

/* Whether measuring the model's operators takes seconds, and memory that is there. */
static bool is_quick(const lzt_session *s)
{
    const lzt_model_info *m = s->info;
    double layer = 0, tokens = (double)s->numerics.micro_batch_tokens, head = (double)m->vocabulary * (double)m->hidden;
    for (uint64_t l = 0; l < m->layer_count; l++)
        if (m->layer[l].forward_flops_per_token > layer) layer = m->layer[l].forward_flops_per_token;
    double flops = 4 * layer * tokens + 3 * 6 * head * (double)s->numerics.loss_chunk;
    double bytes = 8 * head + 6 * layer + 64 * tokens * (double)(m->hidden + m->intermediate);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return flops * s->config->memory.compute_slowdown <= QUICK_FLOPS && bytes <= memory / 4;
}

/* The machine's profile where there is one; else one that is measured now, a few tenths of a second for each part. */
static lzt_status predict(lzt_session *s, lzt_outlook *o, lzt_error *err)
{
    lzt_forecast f;
    lzt_error why = {0};
    uint64_t rows = s->config->per_device_train_batch_size;
    if (rows * DOCUMENT_MIN > s->numerics.micro_batch_tokens) rows = 1;
    o->step_from = "the step simulated on the profile";
    lzt_status status = s->has_profile ? lzt_forecast_step(s, &s->profile, rows, NULL, &f, &why) : LZT_ERR_USAGE;
    if (status && !s->info->trainable_arch) { /* there is nothing to measure */
        *err = why;
        return status;
    }
    if (status && s->has_profile) lzt_talk("note: the profile %s", why.message);
    if (status && !is_quick(s)) {
        o->step_seconds = NAN;
        o->step_from = "nothing: the model is too large to be measured on the way; name a memory.profile";
        return LZT_OK;
    }
    if (status) {
        lzt_profile fresh = {0};
        o->step_from = "the step simulated on a profile measured now";
        status = lzt_probe_session(s, rows, QUICK_SECONDS, false, &fresh, err);
        if (!status) status = lzt_forecast_step(s, &fresh, rows, NULL, &f, err);
        lzt_profile_fini(&fresh);
    }
    if (!status) {
        o->step_seconds = f.price.seconds;
        o->rss_bytes = f.rss_bytes;
    }
    return status;
}

static lzt_status look_ahead(lzt_session *s, bool timed, lzt_outlook *o, lzt_error *err)
{
    const char *wanted = s->config->memory.plan;
    bool is_file = wanted && strcmp(wanted, "auto") && strcmp(wanted, "baseline");
    lzt_status status = is_file ? lzt_session_read_plan(s, wanted, err) : LZT_OK;
    if (status) return status;
    status = lzt_session_open_profile(s, err);
    if (!status && is_file && is_source_plan(&s->plan)) return lzt_outlook_source(s, o, err);
    if (!status && !s->info->trainable_arch && !s->has_profile) return refuse_architecture(s, err);
    if (!status) status = is_file ? lzt_session_measure_plan(s, err) : lzt_session_choose_plan(s, err);
    lzt_cache_shape cache;
    if (!status) status = lzt_session_fit_cache(s, NULL, &cache, err); /* generated answers have to fit, too */
    if (!status) lzt_session_say_search(s);
    if (!status && timed) status = lzt_session_say_proposal(s, err);
    if (!status && timed) status = predict(s, o, err);
    o->device_bytes = s->plan.device_bytes;
    o->host_bytes = s->plan.host_bytes;
    o->nvme_bytes = s->plan.nvme_bytes;
    return status;
}

static uint64_t steps_of(const lzt_session *s)
{
    if (s->batcher) return lzt_batcher_steps(s->batcher);
    return s->config->max_steps > 0 ? (uint64_t)s->config->max_steps : 0;
}

/* ---- what is said ---- */

static lzt_status print_json(const lzt_session *s, const lzt_outlook *o, lzt_error *err)
{
    json_t *out =
        json_pack("{s:b, s:o, s:s, s:I, s:I, s:I, s:I}", "fits", 1, "predicted_step_seconds",
                  lzt_talk_json_real(o->step_seconds), "predicted_from", o->step_from, "planned_device_bytes",
                  (json_int_t)o->device_bytes, "planned_host_bytes", (json_int_t)o->host_bytes, "planned_nvme_bytes",
                  (json_int_t)o->nvme_bytes, "micro_batch_tokens", (json_int_t)s->numerics.micro_batch_tokens);
    if (out && o->rss_bytes) json_object_set_new(out, "predicted_rss_bytes", json_integer((json_int_t)o->rss_bytes));
    json_t *disk =
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "steps",
                  o->steps ? json_integer((json_int_t)o->steps) : json_null(), "checkpoint_bytes",
                  (json_int_t)o->checkpoint_bytes, "checkpoints_kept", (json_int_t)o->checkpoints_kept, "final_bytes",
                  (json_int_t)o->final_bytes, "disk_bytes", (json_int_t)o->disk_bytes, "disk_free_bytes",
                  (json_int_t)o->disk_free_bytes, "spill_bytes_a_step", (json_int_t)o->spill_bytes_a_step,
                  "ssd_bytes_a_day", lzt_talk_json_real(o->ssd_bytes_a_day));
    if (out && disk) json_object_update(out, disk);
    json_decref(disk);
    return lzt_talk_json(out, err);
}

static void put_bytes(const char *name, uint64_t bytes, uint64_t cap)
{
    char text[LZT_UNITS_TEXT], limit[LZT_UNITS_TEXT];
    printf("%s: %llu", name, (unsigned long long)bytes);
    if (bytes >= LZT_KIB) printf(" (%s)", lzt__units_format_bytes(bytes, text));
    if (cap) printf(" of %s", lzt__units_format_bytes(cap, limit));
    putchar('\n');
}

static void put_disk(const lzt_session *s, const lzt_outlook *o)
{
    char text[LZT_UNITS_TEXT], rate[LZT_UNITS_TEXT];
    put_bytes("disk bytes", o->disk_bytes, 0);
    printf("  checkpoints: %llu at once, %s each%s\n", (unsigned long long)o->checkpoints_kept,
           lzt__units_format_bytes(o->checkpoint_bytes, text),
           o->checkpoint_bytes && !o->steps ? " (how many: not known without the rows; set max_steps)" : "");
    printf("  final model: %s\n", lzt__units_format_bytes(o->final_bytes, text));
    printf("  spilled activations: %s\n", lzt__units_format_bytes(o->nvme_bytes, text));
    if (o->disk_free_bytes) {
        printf("  free where %s will be: %s%s\n", s->config->output_dir,
               lzt__units_format_bytes(o->disk_free_bytes, text),
               o->disk_free_bytes < o->disk_bytes ? ": too little" : "");
    }
    if (isfinite(o->ssd_bytes_a_day))
        printf("SSD writes a day: %.0f bytes (%s)\n", o->ssd_bytes_a_day,
               lzt__units_format_decimal(o->ssd_bytes_a_day, "B", rate));
}

static void print_text(const lzt_session *s, const lzt_outlook *o)
{
    const lzt_config *c = s->config;
    printf("fits: yes\n");
    put_bytes("planned device bytes", o->device_bytes, c->memory.device_cap);
    put_bytes("planned host bytes", o->host_bytes, c->memory.host_cap);
    put_bytes("planned nvme bytes", o->nvme_bytes, c->memory.nvme_cap);
    if (isfinite(o->step_seconds))
        printf("step time: about %.3g s, from %s\n", o->step_seconds, o->step_from);
    else
        printf("step time: not predicted, from %s\n", o->step_from);
    if (o->rss_bytes) put_bytes("resident memory", o->rss_bytes, 0);
    if (o->steps && !isfinite(o->step_seconds))
        printf("steps: %llu\n", (unsigned long long)o->steps);
    else if (o->steps)
        printf("steps: %llu, of about %.3g seconds each\n", (unsigned long long)o->steps, o->step_seconds);
    else
        printf("steps: not known without the rows (max_steps is not set)\n");
    put_disk(s, o);
}

static lzt_status say_no_fit(bool json, const lzt_error *why, lzt_error *err)
{
    if (json) {
        lzt_error ignored;
        lzt_talk_json(json_pack("{s:b,s:n,s:n,s:n,s:n,s:s}", "fits", 0, "predicted_step_seconds",
                                "planned_device_bytes", "planned_host_bytes", "planned_nvme_bytes", "reason",
                                why->message),
                      &ignored);
    } else {
        printf("fits: no\n");
    }
    *err = *why;
    return why->status;
}

lzt_status lzt_dry_run_look(lzt_session *s, bool timed, lzt_outlook *o, lzt_error *err)
{
    lzt_status status = open_all(s, err);
    if (!status) status = look_ahead(s, timed, o, err);
    if (status) return status;
    o->steps = steps_of(s);
    lzt_outlook_disk(s, o);
    return LZT_OK;
}

lzt_status lzt_dry_run(lzt_session *s, bool json, lzt_error *err)
{
    lzt_outlook o = {.step_from = ""};
    lzt_error why = {0};
    lzt_status status = lzt_dry_run_look(s, true, &o, &why);
    if (status == LZT_ERR_NO_PLAN) return say_no_fit(json, &why, err);
    if (status) {
        *err = why;
        return status;
    }
    if (json) return print_json(s, &o, err);
    print_text(s, &o);
    return LZT_OK;
}
