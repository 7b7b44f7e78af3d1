/* What a config asks for, opened as a run would open it: see doctor.h. */
#include "cli/doctor.h"

#include "base/units.h"
#include "cli/dry_run.h"

#include <string.h>

/* An error of train as a check. */
static void add_error(lzt_checks *out, const char *name, const lzt_error *why)
{
    lzt_check *c = lzt_checks_add(out, name, LZT_VERDICT_FAIL, why->status, "%s%s%s", why->where,
                                  why->where[0] ? ": " : "", why->message);
    lzt_check_fix(c, "%s", why->hint[0] ? why->hint : "mend what the message names");
}

/* A dry run lets through what only a plan can use; a run does not. */
static void check_config(const char *path, const lzt_config_override *given, int given_count, lzt_checks *out)
{
    lzt_config strict;
    lzt_error why = {0};
    if (lzt_config_load(path, given, given_count, &strict, &why)) {
        add_error(out, "config", &why);
        return;
    }
    lzt_config_fini(&strict);
    lzt_checks_add(out, "config", LZT_VERDICT_OK, LZT_OK, "%s can be run by this version", path);
}

static void check_model(const lzt_config *c, lzt_checks *out)
{
    lzt_model *model = NULL;
    lzt_error why = {0};
    const lzt_model_info *info;
    if (lzt_model_open(c->model_name_or_path, LZT_MODEL_WANT_WEIGHTS, &model, &why)) {
        if (!why.hint[0])
            lzt_hint(&why, "fetch the model anew; lazytrain model verify %s checks all of it", c->model_name_or_path);
        add_error(out, "model_files", &why);
        return;
    }
    info = lzt_model_get_info(model);
    if (info->trainable_arch && !info->quantized) {
        lzt_checks_add(out, "model_files", LZT_VERDICT_OK, LZT_OK, "%s: all %u tensors are there",
                       c->model_name_or_path, info->tensor_count);
    } else {
        lzt_check *check = lzt_checks_add(out, "model_files", LZT_VERDICT_FAIL, LZT_ERR_MODEL,
                                          "%s: %s%s cannot be trained by this version", c->model_name_or_path,
                                          info->architecture, info->quantized ? ", quantised," : "");
        lzt_check_fix(check, "%s",
                      info->quantized ? "use the unquantised model" : "use a model of a family that README names");
    }
    lzt_model_close(model);
}

/* false: a file is not there, and that is said. Rows themselves are read with the plan. */
static bool check_rows(const lzt_config *c, lzt_checks *out)
{
    const char *path[] = {c->dataset, c->eval_dataset};
    for (int i = 0; i < 2; i++) {
        if (!lzt_dry_run_lacks(c, path[i])) continue;
        lzt_check *check = lzt_checks_add(out, "data", LZT_VERDICT_FAIL, LZT_ERR_DATA, "%s is not there", path[i]);
        lzt_check_fix(check, "name a file that can be read as %s", i ? "eval_dataset" : "dataset");
        return false;
    }
    return true;
}

/* A missing shard, say, is not told twice. */
static bool already_failed(const lzt_checks *out, lzt_status status)
{
    for (int i = 0; i < out->count; i++)
        if (out->check[i].verdict == LZT_VERDICT_FAIL && out->check[i].status == status) return true;
    return false;
}

/* The plan, and with it what the machine must have. */
static void check_plan(lzt_session *s, bool rows_are_there, lzt_needs *n, lzt_checks *out)
{
    lzt_outlook o = {.step_from = ""};
    lzt_error why = {0};
    char a[LZT_UNITS_TEXT], b[LZT_UNITS_TEXT];
    lzt_status status = lzt_session_check_spill(s->config, &why);
    if (!status) status = lzt_dry_run_look(s, false, &o, &why);
    if (rows_are_there && status == LZT_ERR_DATA) {
        add_error(out, "data", &why);
    } else if (rows_are_there) {
        bool read = s->batcher != NULL;
        lzt_checks_add(out, "data", LZT_VERDICT_OK, LZT_OK, "%s%s", s->config->dataset,
                       read ? " can be read" : " was not read");
    }
    if (status && already_failed(out, status)) {
        lzt_checks_add(out, "plan", LZT_VERDICT_WARN, LZT_OK, "not looked at: what is named above comes first");
        return;
    }
    if (status) {
        add_error(out, "plan", &why);
        return;
    }
    lzt_checks_add(out, "plan", LZT_VERDICT_OK, LZT_OK, "fits: %s on the device, %s on the host",
                   lzt__units_format_bytes(o.device_bytes, a), lzt__units_format_bytes(o.host_bytes, b));
    bool cpu = !strncmp(s->config->device ? s->config->device : "cpu", "cpu", 3);
    n->memory_bytes = o.host_bytes + (cpu ? o.device_bytes : 0);
    n->output_bytes = o.disk_bytes - o.nvme_bytes;
    n->spill_bytes = o.nvme_bytes;
    if (!cpu) n->locked_bytes = o.host_bytes;
}

void lzt_doctor_config(const char *path, const lzt_config_override *given, int given_count, lzt_session *session,
                       lzt_needs *needs, lzt_checks *checks)
{
    const lzt_config *c = session->config;
    needs->output_dir = c->output_dir;
    needs->spill_dir = c->memory.lazy_nvme_offload_dir;
    needs->wants_uring = c->memory.io_engine == LZT_CONFIG_ENGINE_URING;
    check_config(path, given, given_count, checks);
    check_model(c, checks);
    check_plan(session, check_rows(c, checks), needs, checks);
}
