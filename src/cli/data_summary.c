/* Counts, lengths and batches of a data set: see data_summary.h. */
#include "cli/data_summary.h"

#include "cli/data_counts.h"
#include "cli/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 10 };

/* Ways to batch the rows. */
typedef enum way { PLAIN, GROUPED, PACKED, WAYS } way;
static const char *const way_name[WAYS] = {"plain", "grouped", "packed"};
static const char *const way_text[WAYS] = {"as they come", "by length", "packed"};

/* An epoch's batches: real tokens over what is computed for them, and real tokens a step. */
typedef struct filling {
    bool is_known;
    double fill, tokens_per_step;
    uint64_t steps;
} filling;

typedef struct summary {
    lzt_dataset_report report;
    filling way[WAYS];
    way chosen;
    uint64_t bin[BINS], bin_begin[BINS + 1];
} summary;

/* ---- batches ---- */

static lzt_status fill_batches(lzt_batcher *b, filling *f, lzt_error *err)
{
    uint64_t n = lzt_batcher_capacity(b), real = 0, padded = 0;
    void *memory = malloc(lzt_micro_batch_bytes(n));
    if (!memory) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a batch");
    lzt_micro_batch m = lzt_micro_batch_over(memory, n);
    lzt_status s = LZT_OK;
    f->steps = lzt_batcher_steps(b);
    for (uint64_t step = 0; !s && step < f->steps; step++) {
        s = lzt_batcher_fill(b, step, 0, &m, err);
        real += m.token_count;
        padded += m.padded_count;
    }
    f->fill = padded ? (double)real / (double)padded : 0;
    f->tokens_per_step = (double)real / (double)f->steps;
    f->is_known = true;
    free(memory);
    return s;
}

static lzt_status measure_way(lzt_dataset *dataset, const lzt_summary_options *o, way w, filling *f, lzt_error *err)
{
    lzt_batcher_options options = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *batcher;
    options.micro_batch_rows = o->batch_rows;
    options.packing = w == PACKED;
    options.group_by_length = w == GROUPED;
    options.pack_tokens = o->pack_tokens;
    lzt_status s = lzt_batcher_create(dataset, &options, &batcher, err);
    if (s) return s;
    s = fill_batches(batcher, f, err);
    lzt_batcher_destroy(batcher);
    return s;
}

/* The way that was asked for, and, where rows need not be made again from a large file, the others beside it. */
static lzt_status measure_ways(lzt_dataset *dataset, const lzt_summary_options *o, summary *sum, lzt_error *err)
{
    lzt_status s = LZT_OK;
    if (o->packing && o->group_by_length)
        return lzt_fail(err, LZT_ERR_USAGE, "--group-by-length", "packing and grouping by length exclude one another");
    sum->chosen = o->packing ? PACKED : o->group_by_length ? GROUPED : PLAIN;
    for (way w = PLAIN; !s && w < WAYS; w++) {
        bool is_wanted = w == sum->chosen || !lzt_dataset_is_lazy(dataset);
        if (w == PACKED && !o->pack_tokens && w != sum->chosen) is_wanted = false;
        if (is_wanted) s = measure_way(dataset, o, w, &sum->way[w], err);
    }
    return s;
}

/* ---- lengths ---- */

/* Looks into all rows, so that a large file's report is whole; then counts those that train. */
static lzt_status measure_lengths(lzt_dataset *dataset, summary *sum, lzt_error *err)
{
    uint64_t rows = lzt_dataset_rows(dataset);
    uint32_t n;
    lzt_status s = LZT_OK;
    for (uint64_t i = 0; !s && i < rows; i++) s = lzt_dataset_measure(dataset, i, &n, NULL, err);
    if (s) return s;
    lzt_dataset_get_report(dataset, &sum->report);
    uint64_t span = sum->report.longest + 1;
    for (uint64_t k = 0; k <= BINS; k++) sum->bin_begin[k] = span * k / BINS;
    for (uint64_t i = 0; i < rows; i++) {
        lzt_dataset_measure(dataset, i, &n, NULL, NULL);
        if (!n) continue;
        uint64_t k = 0;
        while (k + 1 < BINS && n >= sum->bin_begin[k + 1]) k++;
        sum->bin[k]++;
    }
    return LZT_OK;
}

/* ---- printing ---- */

static json_t *way_json(const filling *f)
{
    if (!f->is_known) return json_null();
    return json_pack("{s:o,s:I,s:o}", "fill", lzt_talk_json_real(f->fill), "steps", (json_int_t)f->steps,
                     "tokens_per_step", lzt_talk_json_real(f->tokens_per_step));
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static json_t *as_json(const lzt_dataset *dataset, const summary *sum)
{
    const lzt_dataset_report *r = &sum->report;
    const filling *f = &sum->way[sum->chosen];
    json_t *j = json_object();
    lzt_data_put_counts(j, dataset);
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {{"tokens", r->tokens},
                  {"trained_tokens", r->trained_tokens},
                  {"fully_masked", r->dropped_untrained + r->dropped_cut},
                  {"longest", r->longest},
                  {"steps", f->steps}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(j, counts[i].key, json_integer((json_int_t)counts[i].value));
    json_object_set_new(j, "loss_weight", lzt_talk_json_real(r->loss_weight));
    json_object_set_new(j, "weighted_rows", json_integer((json_int_t)r->weighted_rows));
    json_object_set_new(j, "weighted_tokens", json_integer((json_int_t)r->weighted_tokens));
    json_object_set_new(j, "fill", lzt_talk_json_real(f->fill));
    json_object_set_new(j, "trained_share", lzt_talk_json_real(share(r->trained_tokens, r->tokens)));
    json_object_set_new(j, "tokens_per_step", lzt_talk_json_real(f->tokens_per_step));
    json_t *lengths = json_array(), *ways = json_object();
    for (int i = 0; i < BINS; i++)
        json_array_append_new(lengths, json_pack("[I,I]", (json_int_t)sum->bin_begin[i], (json_int_t)sum->bin[i]));
    for (int w = 0; w < WAYS; w++) json_object_set_new(ways, way_name[w], way_json(&sum->way[w]));
    json_object_set_new(j, "lengths", lengths);
    json_object_set_new(j, "batches", ways);
    return j;
}

static void print_counts(const lzt_dataset_report *r)
{
    printf("rows            %" PRIu64 " in, %" PRIu64 " train\n", r->rows_in, r->rows_out);
    printf("dropped         %" PRIu64 " unreadable, %" PRIu64 " too long, %" PRIu64 " without a trained token, %" PRIu64
           " left without one by truncation\n",
           r->dropped_bad, r->dropped_too_long, r->dropped_untrained, r->dropped_cut);
    if (r->first_bad_line)
        printf("                the first unreadable one at %s:%" PRIu64 "\n", r->first_bad_path, r->first_bad_line);
    if (r->first_dropped_line)
        printf("                the first without a trained token at %s:%" PRIu64 "\n", r->first_dropped_path,
               r->first_dropped_line);
    printf("fully masked    %" PRIu64 "\n", r->dropped_untrained + r->dropped_cut);
    printf("truncated       %" PRIu64 "\n", r->truncated);
    printf("blank lines     %" PRIu64 "\n", r->blank_lines);
    printf("replaced text   %" PRIu64 " rows with lone surrogates or bytes that are not UTF-8\n", r->replaced_text);
    printf("NULs            %" PRIu64 " rows with one in a text\n", r->nul_text);
    printf("control text    %" PRIu64 " rows whose content spells a control token (it stays text)\n", r->control_text);
    printf("double BOS      %" PRIu64 "\n", r->double_bos);
    printf("tokens          %" PRIu64 ", trained %" PRIu64 " (%.1f %%), longest row %" PRIu64 "\n", r->tokens,
           r->trained_tokens, 100.0 * share(r->trained_tokens, r->tokens), r->longest);
    if (r->weighted_rows)
        printf("weights         %" PRIu64 " tokens in %" PRIu64
               " rows with one that is neither 0 nor 1; the sum of all is "
               "%g\n",
               r->weighted_tokens, r->weighted_rows, r->loss_weight);
}

static void as_text(const summary *sum)
{
    uint64_t most = 1;
    print_counts(&sum->report);
    for (int w = 0; w < WAYS; w++) {
        const filling *f = &sum->way[w];
        if (!f->is_known) continue;
        printf("%s %-13s %" PRIu64 " steps an epoch, %.1f real tokens each, fill %.4f\n",
               w == (int)sum->chosen ? "*" : " ", way_text[w], f->steps, f->tokens_per_step, f->fill);
    }
    for (int i = 0; i < BINS; i++)
        if (sum->bin[i] > most) most = sum->bin[i];
    for (int i = 0; i < BINS; i++) {
        if (sum->bin_begin[i] == sum->bin_begin[i + 1]) continue; /* fewer lengths than bins */
        printf("%6" PRIu64 " .. %-6" PRIu64 " %8" PRIu64 " ", sum->bin_begin[i], sum->bin_begin[i + 1] - 1,
               sum->bin[i]);
        for (uint64_t k = 0; k < sum->bin[i] * 40 / most; k++) putchar('#');
        putchar('\n');
    }
}

lzt_status lzt_data_summary_print(lzt_dataset *dataset, const lzt_summary_options *o, lzt_error *err)
{
    summary sum = {0};
    lzt_status s = measure_lengths(dataset, &sum, err);
    if (!s) s = measure_ways(dataset, o, &sum, err);
    if (s) return s;
    if (o->json) return lzt_talk_json(as_json(dataset, &sum), err);
    as_text(&sum);
    return LZT_OK;
}
