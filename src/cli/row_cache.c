/* The rows of a config, made and kept: see row_cache.h. */
#include "cli/row_cache.h"

#include "cli/data_counts.h"
#include "cli/session.h"
#include "cli/talk.h"

#include <inttypes.h>
#include <stdio.h>

static const char *use_name(lzt_cache_use use)
{
    static const char *const names[] = {"off", "used", "made", "remade", "not written"};
    return names[use];
}

static json_t *as_json(const lzt_dataset *dataset)
{
    lzt_dataset_report r;
    if (!dataset) return json_null();
    lzt_dataset_get_report(dataset, &r);
    return json_pack("{s:s,s:s,s:s?,s:s?,s:I,s:I,s:I,s:I,s:o,s:o}", "dataset", lzt_dataset_path(dataset), "cache",
                     use_name(r.cache), "path", r.cache_path, "note",
                     r.cache_note && *r.cache_note ? r.cache_note : NULL, "rows_in", (json_int_t)r.rows_in, "rows_out",
                     (json_int_t)r.rows_out, "tokens", (json_int_t)r.tokens, "trained_tokens",
                     (json_int_t)r.trained_tokens, "loss_weight", lzt_talk_json_real(r.loss_weight), "row_digest",
                     lzt_data_digest(dataset));
}

static void as_text(const lzt_dataset *dataset)
{
    lzt_dataset_report r;
    if (!dataset) return;
    lzt_dataset_get_report(dataset, &r);
    printf("%s: %" PRIu64 " of %" PRIu64 " rows train, %" PRIu64 " tokens, %" PRIu64 " of them trained; kept rows %s",
           lzt_dataset_path(dataset), r.rows_out, r.rows_in, r.tokens, r.trained_tokens, use_name(r.cache));
    printf("%s%s%s%s%s\n", r.cache_path ? ": " : "", r.cache_path ? r.cache_path : "",
           r.cache_note && *r.cache_note ? " (" : "", r.cache_note && *r.cache_note ? r.cache_note : "",
           r.cache_note && *r.cache_note ? ")" : "");
}

static lzt_status print(const lzt_session *s, bool json, lzt_error *err)
{
    if (json) return lzt_talk_json(json_pack("{s:o,s:o}", "train", as_json(s->train), "eval", as_json(s->eval)), err);
    as_text(s->train);
    as_text(s->eval);
    return LZT_OK;
}

lzt_status lzt_row_cache_build(const char *config_path, bool json, lzt_error *err)
{
    lzt_config config;
    lzt_status status = lzt_config_load(config_path, NULL, 0, &config, err);
    if (status) return status;
    lzt_session s = {.config = &config, .cache_large = true};
    status = lzt_config_require(&config, "model_name_or_path", err);
    if (!status) status = lzt_config_require(&config, "dataset", err);
    if (!status) status = lzt_session_open_model_to_plan(&s, config.model_name_or_path, err);
    if (!status) status = lzt_session_open_data(&s, err);
    if (!status) status = print(&s, json, err);
    lzt_session_close(&s);
    lzt_config_fini(&config);
    return status;
}
