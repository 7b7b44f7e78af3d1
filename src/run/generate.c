/* Greedy generation over a key-value cache, many sequences at a time.
 *
 *     waiting ── PREFILL: the prompt, the first new id ──> live in a place of the cache ── DECODE: one id each ──> done
 *
 * A place whose sequence is done takes the next that waits. Since a PREFILL streams the weights once more, it waits
 * until a quarter of the places are free. What a sequence gets does not depend on its neighbours.
 */
#include "lazytrain/train.h"

#include "base/clock.h"
#include "run/batch_memory.h"

#include <stdlib.h>

typedef struct decoder {
    lzt_engine *engine;
    lzt_engine_info info;
    lzt_micro_batch batch;
    lzt_sequence *waiting; /* [waiting_count] */
    uint64_t waiting_count, live_count;
    lzt_sequence **live; /* [cache.sequences] by place; NULL: free */
    int32_t *place;      /* [cache.sequences] of each document of the batch */
    lzt_generate_result result;
} decoder;

static bool is_end(const lzt_model_info *model, int32_t id)
{
    for (int i = 0; i < model->eos_id_count; i++)
        if (model->eos_id[i] == id) return true;
    return false;
}

/* ---- batches ---- */

static void begin_batch(decoder *d)
{
    d->batch.token_count = d->batch.document_count = d->batch.loss_count = 0;
    d->batch.document_begin[0] = 0;
}

/* count ids at position and on, for the sequence in the place. */
static void add_document(decoder *d, uint64_t place, const int32_t *ids, uint64_t count, uint64_t position)
{
    lzt_micro_batch *b = &d->batch;
    for (uint64_t i = 0; i < count; i++) {
        b->ids[b->token_count] = ids[i];
        b->position[b->token_count++] = (int32_t)(position + i);
    }
    d->place[b->document_count++] = (int32_t)place;
    b->document_begin[b->document_count] = (int32_t)b->token_count;
}

/* Runs the batch and hands each document's id to its sequence. */
static lzt_status run_batch(decoder *d, lzt_variant variant, lzt_error *err)
{
    lzt_run_result result;
    lzt_engine_set_sequences(d->engine, variant, &d->batch, d->place);
    lzt_status status = lzt_engine_run(d->engine, variant, &result, err);
    for (uint64_t i = 0; !status && i < d->batch.document_count; i++) {
        lzt_sequence *s = d->live[d->place[i]];
        s->out[s->made++] = result.ids[i];
        s->ended = is_end(d->info.model, result.ids[i]);
        d->result.new_tokens++;
        if (!s->ended && s->made < s->max_new) continue;
        d->live[d->place[i]] = NULL;
        d->live_count--;
    }
    return status;
}

/* The next that waits; NULL: none. Those that ask for nothing are done. */
static lzt_sequence *next_waiting(decoder *d)
{
    while (d->waiting_count && !d->waiting->max_new) {
        d->waiting++;
        d->waiting_count--;
    }
    return d->waiting_count ? d->waiting : NULL;
}

/* As many waiting prompts as there are free places and room in one micro-batch. */
static lzt_status prefill(decoder *d, lzt_error *err)
{
    const lzt_cache_shape *cache = &d->info.cache;
    begin_batch(d);
    for (uint64_t place = 0; place < cache->sequences; place++) {
        lzt_sequence *s = next_waiting(d);
        if (!s) break;
        if (d->live[place]) continue;
        if (d->batch.token_count + s->prompt_count > cache->prompt_tokens) break;
        add_document(d, place, s->prompt, s->prompt_count, 0);
        d->live[place] = s;
        d->live_count++;
        d->waiting++;
        d->waiting_count--;
    }
    d->result.prompt_tokens += d->batch.token_count;
    d->result.prefills++;
    return run_batch(d, LZT_VARIANT_PREFILL, err);
}

static lzt_status decode(decoder *d, lzt_error *err)
{
    begin_batch(d);
    for (uint64_t place = 0; place < d->info.cache.sequences; place++) {
        const lzt_sequence *s = d->live[place];
        if (s) add_document(d, place, &s->out[s->made - 1], 1, s->prompt_count + s->made - 1);
    }
    d->result.decodes++;
    return run_batch(d, LZT_VARIANT_DECODE, err);
}

/* ---- the whole ---- */

static lzt_status check_sequence(const lzt_engine_info *info, const lzt_sequence *s, lzt_error *err)
{
    const lzt_cache_shape *cache = &info->cache;
    if (!s->prompt_count) return lzt_fail(err, LZT_ERR_USAGE, "prompt", "the prompt is empty");
    if (s->prompt_count > cache->prompt_tokens || s->prompt_count + s->max_new > cache->length + 1)
        return lzt_fail(err, LZT_ERR_USAGE, "prompt",
                        "%llu ids and %llu new ones exceed a cache of %llu positions and prompts of %llu",
                        (unsigned long long)s->prompt_count, (unsigned long long)s->max_new,
                        (unsigned long long)cache->length, (unsigned long long)cache->prompt_tokens);
    for (uint64_t i = 0; i < s->prompt_count; i++)
        if (s->prompt[i] < 0 || (uint64_t)s->prompt[i] >= info->model->vocabulary)
            return lzt_fail(err, LZT_ERR_USAGE, "prompt", "id %d is outside the vocabulary of %llu", s->prompt[i],
                            (unsigned long long)info->model->vocabulary);
    return LZT_OK;
}

static lzt_status make_decoder(lzt_engine *engine, lzt_sequence *sequences, uint64_t count, decoder *d, lzt_error *err)
{
    *d = (decoder){.engine = engine, .waiting = sequences, .waiting_count = count};
    lzt_engine_get_info(engine, &d->info);
    const lzt_cache_shape *cache = &d->info.cache;
    if (!cache->sequences) return lzt_fail(err, LZT_ERR_INTERNAL, "generate", "the engine was made without a cache");
    for (uint64_t i = 0; i < count; i++) {
        lzt_status status = check_sequence(&d->info, &sequences[i], err);
        if (status) return status;
        sequences[i].made = 0;
        sequences[i].ended = false;
    }
    d->live = calloc(cache->sequences, sizeof *d->live);
    d->place = calloc(cache->sequences, sizeof *d->place);
    if (!d->live || !d->place) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory to generate");
    uint64_t tokens = cache->prompt_tokens > cache->sequences ? cache->prompt_tokens : cache->sequences;
    return lzt__batch_create(tokens, &d->batch, err);
}

lzt_status lzt_generate(lzt_engine *engine, lzt_sequence *sequences, uint64_t count, const volatile sig_atomic_t *stop,
                        lzt_generate_result *result, lzt_error *err)
{
    decoder d;
    uint64_t begin = lzt__clock_ns();
    lzt_status status = make_decoder(engine, sequences, count, &d, err);
    if (!status) status = lzt_engine_drain(engine, NULL, err);
    while (!status && (next_waiting(&d) || d.live_count)) {
        if (stop && *stop) {
            status = lzt_fail(err, LZT_ERR_INTERRUPTED, NULL, "interrupted during generation");
            break;
        }
        uint64_t places = d.info.cache.sequences, free_count = places - d.live_count;
        bool refill = d.waiting_count && (!d.live_count || 4 * free_count >= places);
        status = refill ? prefill(&d, err) : decode(&d, err);
    }
    lzt__batch_destroy(&d.batch);
    free(d.live);
    free(d.place);
    d.result.seconds = lzt__clock_seconds(lzt__clock_ns() - begin);
    if (result) *result = d.result;
    return status;
}
