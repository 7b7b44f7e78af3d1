/* The automatic plan on a profile: see session_step.h. */
#include "cli/session_step.h"

#include "cli/probe_list.h"
#include "cli/talk.h"
#include "lazytrain/step_plan.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* What a run can change of its numerics once its data is open. */
enum { RUN_PROPOSALS = LZT_PROPOSE_LOSS_CHUNK | LZT_PROPOSE_LAYER_SPLITS };

static lzt_step_plan_options options_of(const lzt_session *s)
{
    return (lzt_step_plan_options){
        .struct_bytes = sizeof(lzt_step_plan_options),
        .model = s->info,
        .kern = s->kern,
        .numerics = s->numerics,
        .micro_batches = s->caps.micro_batches,
        .frozen = s->frozen,
        .price = lzt_session_price_options(s, &s->profile, s->config->per_device_train_batch_size)};
}

static lzt_step_caps caps_of(const lzt_session *s)
{
    return (lzt_step_caps){.device_bytes = s->caps.device_cap_bytes,
                           .host_bytes = s->caps.host_cap_bytes,
                           .work_limit = LZT_STEP_WORK_LIMIT};
}

static lzt_status no_plan(const lzt_step_caps *caps, const lzt_step_plan_result *r, lzt_error *err)
{
    static const char *const keys[LZT_STEP_MEMORY_COUNT] = {"device_cap", "host_cap"};
    const uint64_t cap[LZT_STEP_MEMORY_COUNT] = {caps->device_bytes, caps->host_bytes};
    for (int k = 0; k < LZT_STEP_MEMORY_COUNT; k++)
        if (cap[k] && r->least_bytes[k] > cap[k]) {
            lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "%s: needs at least %llu bytes", keys[k],
                     (unsigned long long)r->least_bytes[k]);
            return lzt_hint(err, "%llu are allowed; raise memory.%s, or shorten the micro-batch",
                            (unsigned long long)cap[k], keys[k]);
        }
    lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "no placement fits device_cap and host_cap together");
    return lzt_hint(err, "the least on the device is %llu bytes, the least on the host %llu",
                    (unsigned long long)r->least_bytes[0], (unsigned long long)r->least_bytes[1]);
}

/* One search under s->numerics. *planned false with no error: nothing fits, or nothing was found in time. */
static lzt_status search_once(lzt_session *s, bool *planned, lzt_step_plan_result *result, lzt_error *err)
{
    lzt_step_plan_options options = options_of(s);
    lzt_step_caps caps = caps_of(s);
    lzt_step_search *search;
    *planned = false;
    lzt_status status = lzt_step_search_create(&options, &search, err);
    if (status) return status;
    status = lzt_step_search_solve(search, &caps, &s->plan, result, err);
    *planned = !status && s->plan.boundary;
    lzt_step_search_destroy(search);
    return status;
}

/* numerics.auto: the proposed numerics become the run's, and its plan is found anew. */
static lzt_status take_proposal(lzt_session *s, bool *planned, lzt_step_plan_result *result, lzt_error *err)
{
    lzt_step_plan_options options = options_of(s);
    lzt_step_caps caps = caps_of(s);
    lzt_numerics_proposal proposal;
    lzt_status status = lzt_step_propose(&options, &caps, RUN_PROPOSALS, result->objective_ps, &proposal, err);
    if (status || !proposal.objective_ps) return status;
    lzt_talk("numerics.auto: loss_chunk %llu instead of %llu: %.4g s a step%s",
             (unsigned long long)proposal.numerics.loss_chunk, (unsigned long long)s->numerics.loss_chunk,
             (double)proposal.objective_ps * 1e-12, *planned ? "" : ", where nothing fitted");
    if (*planned) lzt_plan_fini(&s->plan);
    s->numerics = proposal.numerics;
    return search_once(s, planned, result, err);
}

static bool has_checkpoint(const char *output_dir)
{
    char path[4200];
    bool found = false;
    snprintf(path, sizeof path, "%s/checkpoints", output_dir);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) found = !strncmp(entry->d_name, "step-", 5);
    if (dir) closedir(dir);
    return found;
}

/* plan.json of the run that this one goes on with; false: it begins anew. */
static bool plan_before(const lzt_config *c, char *path, size_t size)
{
    const char *from = c->resume_from_checkpoint ? c->resume_from_checkpoint : "auto";
    if (!strcmp(from, "none")) return false;
    if (strcmp(from, "auto"))
        snprintf(path, size, "%s/../../plan.json", from);
    else
        snprintf(path, size, "%s/plan.json", c->output_dir);
    return strcmp(from, "auto") || has_checkpoint(c->output_dir);
}

bool lzt_session_keep_numerics(lzt_session *s)
{
    char path[4200];
    lzt_plan before;
    lzt_error why = {0};
    if (!s->config || !s->config->numerics.propose || !plan_before(s->config, path, sizeof path)) return false;
    if (lzt_plan_read(path, &before, &why)) {
        lzt_talk("note: numerics.auto: how the run began is not known: %s: %s", why.where, why.message);
        return false;
    }
    bool same = before.numerics.micro_batch_tokens == s->numerics.micro_batch_tokens &&
                before.numerics.dtype == s->numerics.dtype;
    if (same) {
        s->numerics.loss_chunk = before.numerics.loss_chunk;
        s->numerics.layer_splits = before.numerics.layer_splits;
        lzt_talk("numerics.auto: loss_chunk %llu, with which the run began (%s)",
                 (unsigned long long)s->numerics.loss_chunk, path);
    }
    lzt_plan_fini(&before);
    return same;
}

lzt_status lzt_session_plan_step(lzt_session *s, bool propose, bool *planned, lzt_error *err)
{
    lzt_step_plan_result result = {0};
    lzt_step_caps caps = caps_of(s);
    lzt_error why = {0};
    lzt_status status = search_once(s, planned, &result, &why);
    if (status == LZT_ERR_USAGE) { /* the profile is of another batch, or of another model */
        lzt_talk("note: the plan is not found from the profile: it %s (%s)", why.message, why.hint);
        return LZT_OK;
    }
    if (!status && propose && s->config->numerics.propose) status = take_proposal(s, planned, &result, &why);
    if (status) {
        *err = why;
        return status;
    }
    s->planned = result;
    if (*planned) return LZT_OK;
    if (result.status != LZT_PLAN_LIMIT) return no_plan(&caps, &result, err);
    lzt_talk(
        "note: none of the %llu of %llu candidates that the limit of work allows fits: planned without the profile",
        (unsigned long long)result.simulated, (unsigned long long)result.candidates);
    return LZT_OK;
}

void lzt_session_say_search(const lzt_session *s)
{
    const lzt_step_plan_result *r = &s->planned;
    if (!s->plan.step || !r->candidates) return;
    lzt_talk("plan: found from %s: %llu of %llu candidates simulated, %s", s->profile_path,
             (unsigned long long)r->simulated, (unsigned long long)r->candidates,
             r->cut ? "then the limit of work came" : "no other could be faster");
    uint64_t document = s->batcher ? lzt_batcher_document_tokens(s->batcher) : 0;
    if (document)
        lzt_talk(
            "plan: attention is priced for packed documents of %llu tokens, the data's mean by tokens; short ones take "
            "somewhat longer than their share",
            (unsigned long long)document);
}

lzt_status lzt_session_say_proposal(const lzt_session *s, lzt_error *err)
{
    lzt_numerics_proposal proposal;
    if (!s->has_profile || !s->plan.step || s->config->numerics.propose) return LZT_OK;
    lzt_step_plan_options options = options_of(s);
    lzt_step_caps caps = caps_of(s);
    lzt_status status = lzt_step_propose(&options, &caps, LZT_PROPOSE_ALL, s->plan.objective_ps, &proposal, err);
    if (status || !proposal.objective_ps) return status;
    lzt_talk(
        "proposed numerics: loss_chunk %llu, %llu tokens a micro-batch (%llu a step), layer_splits %llu: %.4g s a step "
        "instead of %.4g, in other bits; numerics.auto: true takes the loss chunk",
        (unsigned long long)proposal.numerics.loss_chunk, (unsigned long long)proposal.numerics.micro_batch_tokens,
        (unsigned long long)proposal.micro_batches,
        (unsigned long long)(proposal.numerics.layer_splits ? proposal.numerics.layer_splits : 1),
        (double)proposal.objective_ps * 1e-12, (double)s->plan.objective_ps * 1e-12);
    return LZT_OK;
}
