/* The step loop: see lazytrain/train.h.
 *
 *     step ── take, run each micro-batch ── metrics ── (evaluate) ── (save) ── next
 *
 * Micro-batches come from a feed, whose thread makes them ahead (lazytrain/feed.h); a step takes all of its own, in
 * order, so what has been consumed is a function of the step.
 *
 * The update that a step's gradients ask for is left pending and runs under the next step's forward; evaluating and
 * saving drain it first. Counters of the schedule and of Adam move only with applied steps, so a skipped step leaves
 * the run as if its rows had not been there.
 */
#include "lazytrain/train.h"

#include "base/clock.h"
#include "lazytrain/feed.h"
#include "lazytrain/optim.h"
#include "run/checkpoint.h"
#include "run/step_metrics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

typedef struct trainer {
    const lzt_train_options *options;
    const lzt_config *config;
    lzt_engine *engine;
    lzt_feed *feed; /* NULL: no step is left */
    uint64_t total_steps;
    uint64_t step;    /* whole steps done */
    uint64_t applied; /* of those, steps that changed the weights (one may still be pending) */
    uint64_t nonfinite, in_row;
    uint64_t empty;      /* steps without a loss-bearing token, in this process */
    uint64_t saved_step; /* of the newest checkpoint; 0: none */
    uint64_t rows_seen;  /* that whole steps were trained on */
    lzt_queue_metrics queue[LZT_STEP_QUEUES];
    lzt_train_outcome *outcome;
} trainer;

static bool stopping(const trainer *t)
{
    return t->options->stop && *t->options->stop;
}

static void note(const trainer *t, const char *line)
{
    if (t->options->note) t->options->note(t->options->note_arg, line);
}

/* ---- one step ---- */

static lzt_step_scalars scalars_of(const trainer *t)
{
    const lzt_config *c = t->config;
    double n = (double)(t->applied + 1);
    return (lzt_step_scalars){.lr = lzt__learning_rate(c, t->applied, t->total_steps),
                              .beta1 = c->adam_beta1,
                              .beta2 = c->adam_beta2,
                              .epsilon = c->adam_epsilon,
                              .weight_decay = c->weight_decay,
                              .bias_correction1 = 1.0 - pow(c->adam_beta1, n),
                              .bias_correction2 = 1.0 - pow(c->adam_beta2, n),
                              .max_grad_norm = c->max_grad_norm};
}

static lzt_variant variant_of(uint64_t m, uint64_t count)
{
    if (count == 1) return LZT_VARIANT_SINGLE;
    if (m == 0) return LZT_VARIANT_FIRST;
    return m + 1 == count ? LZT_VARIANT_LAST : LZT_VARIANT_MIDDLE;
}

/* Runs the micro-batches of the step in hand, of which fed is the first. LZT_ERR_INTERRUPTED between two of them drops
 * the step's gradients. */
static lzt_status run_micro_batches(trainer *t, lzt_fed *fed, lzt_step_metrics *m, lzt_account *account, lzt_error *err)
{
    double loss_sum = 0;
    double loss_weight = fed->loss_weight;
    uint64_t rows = 0, count = fed->count;
    lzt_run_result result = {0};
    for (uint64_t i = 0; i < count; i++) {
        lzt_status status = i ? lzt_feed_next(t->feed, fed, err) : LZT_OK;
        if (status) return status;
        if (i && stopping(t)) return lzt_fail(err, LZT_ERR_INTERRUPTED, NULL, "interrupted");
        assert(fed->step == t->step && fed->index == i);
        lzt_engine_set_batch(t->engine, fed->batch, 1.0f / (float)loss_weight);
        status = lzt_engine_run(t->engine, variant_of(i, count), &result, err);
        if (status) return status;
        lzt_account_add(account, &result.account);
        loss_sum += result.loss_sum;
        rows += fed->rows;
        m->tokens_padded += fed->batch->padded_count;
        m->tokens_real += fed->batch->token_count;
        m->tokens_loss += fed->batch->loss_count;
    }
    t->rows_seen += rows;
    m->loss = loss_sum / loss_weight;
    m->loss_weight = loss_weight;
    m->grad_norm = result.grad_norm;
    m->finite = result.finite && isfinite(m->loss);
    return LZT_OK;
}

static lzt_status count_finite(trainer *t, bool finite, lzt_error *err)
{
    if (finite) {
        t->applied++;
        t->in_row = 0;
        return LZT_OK;
    }
    t->nonfinite++;
    t->in_row++;
    lzt_engine_abandon(t->engine);
    if (t->in_row < t->config->max_nonfinite_steps) return LZT_OK;
    lzt_fail(err, LZT_ERR_NUMERICS, "max_nonfinite_steps",
             "%llu steps in a row had no finite gradient, the last is %llu", (unsigned long long)t->in_row,
             (unsigned long long)t->step);
    if (t->saved_step)
        return lzt_hint(err, "lower learning_rate or look at these rows; step %llu is saved",
                        (unsigned long long)t->saved_step);
    return lzt_hint(err, "lower learning_rate or look at these rows; there is no checkpoint");
}

/* The step's line of metrics, from what was measured. */
static void measure_step(trainer *t, const lzt_account *account, uint64_t begin, lzt_step_metrics *m)
{
    lzt_feed_stats data;
    lzt_feed_take_stats(t->feed, &data);
    m->step = t->step;
    m->epoch = lzt_batcher_epoch(t->options->train, t->step);
    double step_seconds = lzt__clock_seconds(lzt__clock_ns() - begin);
    lzt__step_metrics(t->engine, account, step_seconds, &data, t->queue, m);
    for (int i = 0; i < LZT_MEMORY_COUNT; i++) m->cap_bytes[i] = t->options->cap_bytes[i];
    m->predicted_step_seconds = t->options->predicted_step_seconds;
    m->predicted_rss_bytes = t->options->predicted_rss_bytes;
    if (t->options->stepped) t->options->stepped(t->options->stepped_arg, m);
}

/* Whole step t->step; on success the step counts as done. */
static lzt_status run_step(trainer *t, lzt_step_metrics *m, lzt_error *err)
{
    uint64_t begin = lzt__clock_ns();
    lzt_account account = {0};
    lzt_step_scalars scalars = scalars_of(t);
    lzt_fed fed;
    lzt_status status = lzt_feed_next(t->feed, &fed, err);
    if (status) return status;
    uint64_t loss_tokens = fed.loss_tokens;
    if (loss_tokens) lzt_engine_set_scalars(t->engine, &scalars);
    *m = (lzt_step_metrics){.lr = scalars.lr};
    if (loss_tokens)
        status = run_micro_batches(t, &fed, m, &account, err);
    else
        m->loss = NAN; /* nothing to learn from: no update, and nothing in any mean */
    if (status) return status;
    t->step++;
    measure_step(t, &account, begin, m);
    lzt_status counted = loss_tokens ? count_finite(t, m->finite, err) : LZT_OK;
    t->empty += !loss_tokens;
    m->nonfinite_steps = t->nonfinite;
    m->skipped_steps = t->nonfinite + t->empty;
    t->outcome->last_loss = m->loss;
    lzt_error ignored;
    status = lzt_metrics_step(t->options->metrics, m, counted ? &ignored : err);
    if (t->options->progress) lzt_progress_step(t->options->progress, m);
    return counted ? counted : status;
}

/* ---- between steps ---- */

/* Generated answers, into the directory of answers. */
static lzt_status examine(trainer *t, lzt_eval_metrics *m, lzt_error *err)
{
    char path[4200];
    lzt_exam_result e;
    snprintf(path, sizeof path, "%s/step-%llu.jsonl", t->options->answers, (unsigned long long)t->step);
    lzt_status status =
        lzt_exam_run(t->options->exam, t->engine, t->options->answers ? path : NULL, t->options->stop, &e, err);
    if (status) return status;
    m->has_exact_match = true;
    m->exact_match = (double)e.right / (double)e.answers;
    m->answers = e.answers;
    m->answers_right = e.right;
    m->answers_none = e.unanswered;
    m->answer_tokens = e.generated.new_tokens;
    m->answer_seconds = e.seconds;
    return LZT_OK;
}

static lzt_status evaluate(trainer *t, lzt_error *err)
{
    if (!t->options->eval || lzt_metrics_has_eval(t->options->metrics, t->step)) return LZT_OK;
    lzt_eval_result e;
    lzt_status status = lzt_evaluate(t->engine, t->options->eval, t->config->per_device_eval_batch_size,
                                     t->config->eval_loss_samples, t->options->stop, &e, err);
    if (status) return status;
    lzt_eval_metrics m = {.step = t->step,
                          .epoch = lzt_batcher_epoch(t->options->train, t->step),
                          .eval_loss = e.loss_sum / e.loss_weight,
                          .eval_tokens = e.loss_count,
                          .eval_loss_weight = e.loss_weight,
                          .eval_rows = e.rows,
                          .eval_seconds = e.seconds};
    t->outcome->last_eval_loss = m.eval_loss;
    if (t->options->exam) status = examine(t, &m, err);
    if (status) return status;
    if (t->options->progress) lzt_progress_eval(t->options->progress, &m);
    return lzt_metrics_eval(t->options->metrics, &m, err);
}

/* Adds to the way out what the user still has. */
static void say_what_is_saved(const trainer *t, lzt_error *err)
{
    char way_out[sizeof err->hint];
    snprintf(way_out, sizeof way_out, "%s%s", err->hint, err->hint[0] ? "; " : "");
    if (t->saved_step)
        lzt_hint(err, "%sstep %llu is saved, the same command goes on from it", way_out,
                 (unsigned long long)t->saved_step);
    else
        lzt_hint(err, "%sthere is no complete checkpoint yet", way_out);
}

static lzt_status save(trainer *t, lzt_error *err)
{
    lzt_status status = lzt_engine_drain(t->engine, NULL, err);
    if (!status) status = lzt_metrics_sync(t->options->metrics, err);
    if (status) return status;
    lzt_progress_state progress = {t->step, t->applied, t->nonfinite, t->rows_seen};
    status = lzt__checkpoint_save(t->options, &progress, err);
    if (!status)
        t->saved_step = t->step;
    else
        say_what_is_saved(t, err);
    return status;
}

static bool is_epoch_end(const trainer *t)
{
    return lzt_batcher_ends_epoch(t->options->train, t->step);
}

/* Every so many steps; 0: never. */
static bool due(uint64_t step, uint64_t interval)
{
    return interval && step % interval == 0;
}

static bool eval_due(const trainer *t)
{
    if (t->config->eval_strategy == LZT_CONFIG_STRATEGY_NO) return false;
    return due(t->step, lzt_steps_of(t->config->eval_steps, t->total_steps)) || is_epoch_end(t) ||
           t->step == t->total_steps;
}

static bool save_due(const trainer *t)
{
    if (!t->options->checkpoints || t->config->save_strategy == LZT_CONFIG_STRATEGY_NO) return false;
    if (t->config->save_strategy == LZT_CONFIG_STRATEGY_EPOCH) return is_epoch_end(t);
    return due(t->step, lzt_steps_of(t->config->save_steps, t->total_steps));
}

/* A signal: the last whole step is saved. */
static lzt_status interrupt(trainer *t, lzt_error *err)
{
    if (t->step == 0 || !t->options->checkpoints)
        return lzt_fail(err, LZT_ERR_INTERRUPTED, NULL,
                        "interrupted before the first step was done; nothing to resume");
    lzt_status status = save(t, err);
    if (status) return status;
    t->outcome->saved = true;
    return lzt_fail(err, LZT_ERR_INTERRUPTED, NULL, "interrupted; step %llu is saved, run the same command to go on",
                    (unsigned long long)t->step);
}

static lzt_status dump_gradients(trainer *t, lzt_error *err)
{
    if (!t->options->dump_gradients || t->step != 1) return LZT_OK;
    return lzt__gradients_write(t->engine, t->options->dump_gradients, err);
}

static lzt_status loop(trainer *t, lzt_error *err)
{
    lzt_status status = LZT_OK;
    lzt_step_metrics metrics;
    if (t->step == 0 && t->config->eval_on_start && t->config->eval_strategy != LZT_CONFIG_STRATEGY_NO)
        status = evaluate(t, err);
    if (t->step > 0 && eval_due(t)) status = evaluate(t, err); /* a signal hit it before; else it is there already */
    while (!status && t->step < t->total_steps) {
        if (stopping(t)) return interrupt(t, err);
        status = run_step(t, &metrics, err);
        if (!status) status = dump_gradients(t, err);
        if (!status && eval_due(t)) status = evaluate(t, err);
        if (!status && save_due(t)) status = save(t, err);
    }
    if (status == LZT_ERR_INTERRUPTED) {
        /* Between two micro-batches: the step's gradients are incomplete, the state is that of the step before. */
        return interrupt(t, err);
    }
    if (!status && stopping(t) && t->step < t->total_steps) return interrupt(t, err);
    if (!status) status = lzt_engine_drain(t->engine, NULL, err);
    return status;
}

/* The feed of the steps that are left. It holds a whole step and some more, so that a step with many micro-batches
 * finds the next one's count of loss-bearing tokens made. */
static lzt_status start_feed(trainer *t, lzt_error *err)
{
    enum { AHEAD = 4, DEPTH_MAX = 64 };
    lzt_engine_info info;
    lzt_feed_options o = LZT_FEED_OPTIONS_INIT;
    if (t->step >= t->total_steps) return LZT_OK;
    lzt_engine_get_info(t->engine, &info);
    o.batcher = t->options->train;
    o.first_step = t->step;
    o.end_step = t->total_steps;
    o.token_capacity = info.plan->numerics.micro_batch_tokens;
    o.depth = t->config->gradient_accumulation_steps + AHEAD;
    if (o.depth > DEPTH_MAX) o.depth = DEPTH_MAX;
    return lzt_feed_create(&o, &t->feed, err);
}

lzt_status lzt_train_run(const lzt_train_options *options, lzt_train_outcome *outcome, lzt_error *err)
{
    *outcome = (lzt_train_outcome){.last_loss = NAN, .last_eval_loss = NAN};
    trainer t = {.options = options,
                 .config = options->config,
                 .engine = options->engine,
                 .total_steps = options->config->max_steps == 0 ? 0 : lzt_batcher_steps(options->train),
                 .step = options->start_step,
                 .applied = options->applied_steps,
                 .nonfinite = options->nonfinite_steps,
                 .saved_step = options->start_step,
                 .rows_seen = options->rows_seen,
                 .outcome = outcome};
    lzt_status status = start_feed(&t, err);
    if (!status && t.step >= t.total_steps && t.total_steps) note(&t, "the run is complete; nothing to do");
    if (!status) status = loop(&t, err);
    lzt_feed_destroy(t.feed);
    outcome->steps = t.step;
    outcome->applied_steps = t.applied;
    outcome->nonfinite_steps = t.nonfinite;
    return status;
}
