/* Counts of a dataset: see data_counts.h. */
#include "cli/data_counts.h"
#include "cli/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A list of counts, those that are zero left out. */
typedef struct listing {
    char text[800];
    size_t used;
} listing;

static void add(listing *l, uint64_t count, const char *what, const char *path, uint64_t line)
{
    char place[300] = "";
    if (!count) return;
    if (path) snprintf(place, sizeof place, " (first at %.256s:%" PRIu64 ")", path, line);
    int n = snprintf(l->text + l->used, sizeof l->text - l->used, "%s%" PRIu64 " %s%s", l->used ? ", " : "", count,
                     what, place);
    if (n > 0 && l->used + (size_t)n < sizeof l->text) l->used += (size_t)n;
}

static void say_sources(const lzt_dataset *d, const char *what)
{
    uint64_t n = lzt_dataset_source_count(d);
    for (uint64_t i = 0; n > 1 && i < n; i++) {
        lzt_dataset_source s;
        lzt_dataset_get_source(d, i, &s);
        lzt_talk("%s: %s: %" PRIu64 " rows, %" PRIu64 " of an epoch's %" PRIu64, what, s.name, s.rows_in,
                 s.rows_per_epoch, lzt_dataset_epoch_rows(d));
    }
}

/* Every count that is not zero: rows that were left out, then what else was seen. */
static void say_found(const lzt_dataset_report *r, const char *what)
{
    listing dropped = {0}, seen = {0};
    add(&dropped, r->dropped_bad, "that cannot be read", r->first_bad_path, r->first_bad_line);
    add(&dropped, r->dropped_too_long, "too long", NULL, 0);
    add(&dropped, r->dropped_untrained + r->dropped_cut,
        r->dropped_cut ? "without a trained token, or none after truncation" : "without a trained token",
        r->first_dropped_path, r->first_dropped_line);
    if (dropped.used) lzt_talk("%s: rows left out: %s", what, dropped.text);
    add(&seen, r->truncated, "truncated rows", NULL, 0);
    add(&seen, r->blank_lines, "blank lines", NULL, 0);
    add(&seen, r->replaced_text, "rows with broken text (U+FFFD in its place)", NULL, 0);
    add(&seen, r->nul_text, "rows with a NUL", NULL, 0);
    add(&seen, r->control_text, "rows that spell a control token (it stays text)", NULL, 0);
    add(&seen, r->double_bos, "rows with two BOS", NULL, 0);
    add(&seen, r->weighted_rows, "rows with weights other than 0 and 1", NULL, 0);
    if (seen.used) lzt_talk("%s: %s", what, seen.text);
}

void lzt_data_say(const lzt_dataset *d, const char *what)
{
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    if (r.lazy)
        lzt_talk("%s: %s: %" PRIu64 " rows, each looked into when it is first used", what, lzt_dataset_path(d),
                 r.rows_in);
    else
        lzt_talk("%s: %s: %" PRIu64 " rows, %" PRIu64 " train; %" PRIu64 " tokens, %.1f %% of them trained, at most "
                 "%" PRIu64 " in a row",
                 what, lzt_dataset_path(d), r.rows_in, r.rows_out, r.tokens,
                 r.tokens ? 100.0 * (double)r.trained_tokens / (double)r.tokens : 0.0, r.longest);
    say_sources(d, what);
    say_found(&r, what);
}

void lzt_data_say_lazy(const lzt_dataset *d, const char *what)
{
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    if (!r.lazy) return;
    lzt_talk("%s: %" PRIu64 " of %" PRIu64 " rows were looked into and train", what, r.rows_out, r.rows_in);
    say_found(&r, what);
}

bool lzt_data_is_weighted(const float *weights, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (weights[i] != 0 && weights[i] != 1) return true;
    return false;
}

static json_t *place(const char *path, uint64_t line)
{
    return path ? json_sprintf("%s:%" PRIu64, path, line) : json_null();
}

json_t *lzt_data_digest(const lzt_dataset *d)
{
    char rows[LZT_DIGEST_TEXT], files[LZT_DIGEST_TEXT];
    lzt_error none;
    return lzt_dataset_digest(d, rows, files, &none) || !rows[0] ? json_null() : json_string(rows);
}

void lzt_data_put_counts(json_t *object, const lzt_dataset *d)
{
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    const struct {
        const char *name;
        uint64_t value;
    } count[] = {
        {"truncated", r.truncated}, {"blank_lines", r.blank_lines},       {"replaced_text", r.replaced_text},
        {"nul_text", r.nul_text},   {"double_bos", r.double_bos},         {"control_text", r.control_text},
        {"split_off", r.split_off}, {"first_bad_line", r.first_bad_line}, {"first_dropped_line", r.first_dropped_line}};
    json_object_set_new(object, "rows_in", json_integer((json_int_t)r.rows_in));
    json_object_set_new(object, "rows_out", json_integer((json_int_t)r.rows_out));
    json_object_set_new(object, "dropped",
                        json_pack("{s:I,s:I,s:I,s:I}", "bad", (json_int_t)r.dropped_bad, "too_long",
                                  (json_int_t)r.dropped_too_long, "cut", (json_int_t)r.dropped_cut, "untrained",
                                  (json_int_t)r.dropped_untrained));
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        json_object_set_new(object, count[i].name, json_integer((json_int_t)count[i].value));
    json_object_set_new(object, "first_bad", place(r.first_bad_path, r.first_bad_line));
    json_object_set_new(object, "first_dropped", place(r.first_dropped_path, r.first_dropped_line));
    json_object_set_new(object, "row_digest", lzt_data_digest(d));
    json_t *sources = json_array();
    for (uint64_t i = 0; i < lzt_dataset_source_count(d); i++) {
        lzt_dataset_source s;
        lzt_dataset_get_source(d, i, &s);
        json_array_append_new(sources, json_pack("{s:s,s:s,s:I,s:I,s:I}", "name", s.name, "path", s.path, "rows_in",
                                                 (json_int_t)s.rows_in, "rows", (json_int_t)s.rows, "rows_per_epoch",
                                                 (json_int_t)s.rows_per_epoch));
    }
    json_object_set_new(object, "sources", sources);
}
