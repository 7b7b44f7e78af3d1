/* The engine's side of checkpoints: its state as named tensors, and what must agree when a run goes on.
 *
 * A run may go on with another placement, another micro-batch at the same global batch, other caps or another rate. It
 * may not with other rows, another seed or order, another global batch or another dtype: those are compared and
 * refused.
 */
#include "run/checkpoint.h"

#include "lazytrain/ckpt.h"
#include "lazytrain/train.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES  4200
#define ROW_DIGEST  "row_digest"
#define FILE_DIGEST "file_digest"

/* ---- what must be equal ---- */

static json_t *frozen_names(const lzt_engine_info *info)
{
    json_t *names = json_array();
    for (uint32_t i = 0; i < info->model->tensor_count; i++)
        if (info->frozen[i]) json_array_append_new(names, json_string(info->model->tensor[i].name));
    return names;
}

/* Of a lazy data set the report is not complete, and the feed's thread writes it. */
static void put_sums(json_t *fields, const lzt_dataset *dataset)
{
    lzt_dataset_report rows;
    lzt_dataset_get_report(dataset, &rows);
    json_object_set_new(fields, "row_tokens", json_integer((json_int_t)rows.tokens));
    json_object_set_new(fields, "row_trained_tokens", json_integer((json_int_t)rows.trained_tokens));
    json_object_set_new(fields, "row_loss_weight", json_real(rows.loss_weight));
}

/* Which rows there are: by what they train with, and where that is not known by the files that they come from. */
static void put_digests(json_t *fields, const lzt_dataset *dataset)
{
    char rows[LZT_DIGEST_TEXT], files[LZT_DIGEST_TEXT];
    lzt_error none;
    if (lzt_dataset_digest(dataset, rows, files, &none)) return;
    if (rows[0]) json_object_set_new(fields, ROW_DIGEST, json_string(rows));
    json_object_set_new(fields, FILE_DIGEST, json_string(files));
}

static json_t *fields_of(const lzt_engine_info *info, const lzt_config *c, const lzt_batcher *batcher)
{
    json_t *fields =
        json_pack("{s:s,s:o,s:I,s:I,s:b,s:b,s:b,s:b,s:I,s:I}", "dtype", lzt_dtype_name(info->plan->numerics.dtype),
                  "frozen", frozen_names(info), "data_seed", (json_int_t)c->data_seed, "global_batch_rows",
                  (json_int_t)(c->per_device_train_batch_size * c->gradient_accumulation_steps), "disable_shuffling",
                  c->disable_shuffling, "dataloader_drop_last", c->dataloader_drop_last, "packing", c->packing,
                  "group_by_length", c->group_by_length, "max_seq_length", (json_int_t)c->max_seq_length, "rows",
                  (json_int_t)lzt_batcher_rows(batcher));
    if (c->mix_strategy) {
        json_t *mix = json_pack("[i]", (int)c->mix_strategy);
        for (uint64_t i = 0; i < c->mix_weight_count; i++) json_array_append_new(mix, json_real(c->mix_weight[i]));
        json_object_set_new(fields, "mix", mix);
    }
    const lzt_dataset *dataset = lzt_batcher_dataset(batcher);
    if (!lzt_dataset_is_lazy(dataset)) put_sums(fields, dataset);
    put_digests(fields, dataset);
    return fields;
}

/* Where the batches of a step begin: {epoch, window, pack}. */
static json_t *position_of(const lzt_batcher *batcher, uint64_t step)
{
    lzt_data_position at;
    lzt_batcher_position(batcher, step, &at);
    return json_pack("{s:I,s:I,s:I}", "epoch", (json_int_t)at.epoch, "window", (json_int_t)at.window, "pack",
                     (json_int_t)at.pack);
}

static void print_value(const json_t *value, char *text, size_t size)
{
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    snprintf(text, size, "%s", dumped ? dumped : "?");
    free(dumped);
}

static lzt_status differs(const lzt_ckpt_info *ckpt, const char *key, const json_t *then, const json_t *now,
                          lzt_error *err)
{
    char a[64], b[64];
    bool rows = !strcmp(key, ROW_DIGEST);
    print_value(then, a, sizeof a);
    print_value(now, b, sizeof b);
    lzt_status status =
        lzt_fail(err, LZT_ERR_USAGE, ckpt->directory, "the checkpoint was made with %s %s, this run has %s", key, a, b);
    if (rows || !strcmp(key, FILE_DIGEST))
        lzt_hint(err, "%s. Restore them, use another output_dir, or set resume_from_checkpoint: none to start anew",
                 rows ? "ids, labels or weights of some row have changed"
                      : "the data set's files, its tokenizer or template, or a setting that changes rows is another");
    else
        lzt_hint(err, "restore the setting, use another output_dir, or set resume_from_checkpoint: none to start anew");
    return status;
}

/* What was written before there were digests says of its rows only how many they are and what they add up to. */
static void note_old(const lzt_train_options *o, const lzt_ckpt_info *ckpt, const json_t *then)
{
    char line[600];
    if (!o->note || json_object_get(then, FILE_DIGEST)) return;
    snprintf(line, sizeof line,
             "note: %s is of a release that did not keep a digest of its rows; that they are this run's is known by "
             "their counts only",
             ckpt->directory);
    o->note(o->note_arg, line);
}

/* The same rows may come from other files: where both know their rows, files do not count. */
static lzt_status compare_fields(const lzt_train_options *o, const lzt_ckpt_info *ckpt, const lzt_engine_info *info,
                                 json_t *now, lzt_error *err)
{
    if (ckpt->model_fingerprint != info->model->fingerprint)
        return lzt_fail(err, LZT_ERR_MODEL, ckpt->directory, "the checkpoint belongs to another model");
    json_t *then = json_loads(ckpt->config_json, 0, NULL);
    const char *key;
    json_t *value;
    lzt_status status = LZT_OK;
    if (json_object_get(then, ROW_DIGEST) && json_object_get(now, ROW_DIGEST)) json_object_del(now, FILE_DIGEST);
    json_object_foreach(now, key, value)
    {
        const json_t *old = json_object_get(then, key);
        if (!status && old && !json_equal((json_t *)(uintptr_t)old, value))
            status = differs(ckpt, key, old, value, err);
    }
    if (!status) note_old(o, ckpt, then);
    json_decref(then);
    return status;
}

/* ---- tensors ---- */

/* The model's tensors; a frozen one has no moments worth a place on disk. */
static lzt_ckpt_tensor *tensors_of(const lzt_engine_info *info, lzt_error *err)
{
    const lzt_model_info *m = info->model;
    lzt_ckpt_tensor *tensor = calloc(m->tensor_count, sizeof *tensor);
    if (!tensor) {
        lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a checkpoint's tensor list");
        return NULL;
    }
    for (uint32_t i = 0; i < m->tensor_count; i++)
        tensor[i] = (lzt_ckpt_tensor){.name = m->tensor[i].name,
                                      .rank = m->tensor[i].rank,
                                      .shape = m->tensor[i].shape,
                                      .element_count = m->tensor[i].element_count,
                                      .has_moments = !info->frozen[i]};
    return tensor;
}

static const lzt_state_part parts[LZT_CKPT_PART_COUNT] = {
    [LZT_CKPT_MASTER] = LZT_STATE_PART_MASTER,
    [LZT_CKPT_EXP_AVG] = LZT_STATE_PART_EXP_AVG,
    [LZT_CKPT_EXP_AVG_SQ] = LZT_STATE_PART_EXP_AVG_SQ,
};

static lzt_status source(void *arg, uint32_t tensor, int part, float *out, lzt_error *err)
{
    return lzt_engine_read(arg, parts[part], tensor, out, err);
}

static lzt_status sink(void *arg, uint32_t tensor, int part, const float *in, lzt_error *err)
{
    return lzt_engine_write(arg, parts[part], tensor, in, err);
}

/* ---- saving and going on ---- */

lzt_status lzt__checkpoint_save(const lzt_train_options *o, const lzt_progress_state *progress, lzt_error *err)
{
    lzt_engine_info info;
    lzt_engine_get_info(o->engine, &info);
    lzt_ckpt_state state = LZT_CKPT_STATE_INIT;
    lzt_ckpt_options options = LZT_CKPT_OPTIONS_INIT;
    lzt_ckpt_tensor *tensor = tensors_of(&info, err);
    if (!tensor) return LZT_ERR_NO_MEMORY;
    json_t *fields = fields_of(&info, o->config, o->train);
    json_object_set_new(fields, "model_name_or_path", json_string(o->config->model_name_or_path)); /* for export */
    json_object_set_new(fields, "position", position_of(o->train, progress->step));
    int64_t told;
    if (lzt_dataset_tells_time(lzt_batcher_dataset(o->train), &told))
        json_object_set_new(fields, "template_time", json_integer(told));
    char *text = json_dumps(fields, JSON_COMPACT);
    state.step = progress->step;
    state.applied_steps = progress->applied;
    state.nonfinite_steps = progress->nonfinite;
    state.rows_seen = progress->rows_seen;
    state.epoch = lzt_batcher_epoch(o->train, progress->step);
    state.seed = o->config->data_seed;
    state.model_fingerprint = info.model->fingerprint;
    state.config_json = text;
    state.tensor = tensor;
    state.tensor_count = info.model->tensor_count;
    state.source = source;
    state.arg = o->engine;
    options.save_total_limit = o->config->save_total_limit;
    options.note = o->note;
    options.note_arg = o->note_arg;
    lzt_status status = lzt_ckpt_save(o->checkpoints, &state, &options, err);
    free(text);
    json_decref(fields);
    free(tensor);
    return status;
}

/* The run's batches after the checkpoint's step begin where the checkpoint says that its own ended. */
static lzt_status compare_position(const lzt_train_options *o, const lzt_ckpt_info *ckpt, lzt_error *err)
{
    if (ckpt->step > lzt_batcher_steps(o->train)) return LZT_OK; /* a shorter run: nothing is left to do */
    json_t *then = json_loads(ckpt->config_json, 0, NULL), *now = position_of(o->train, ckpt->step);
    const json_t *old = json_object_get(then, "position"); /* absent before 0.1.1 */
    lzt_status status = LZT_OK;
    if (old && !json_equal((json_t *)(uintptr_t)old, now)) {
        char a[128], b[128];
        print_value(old, a, sizeof a);
        print_value(now, b, sizeof b);
        status =
            lzt_fail(err, LZT_ERR_USAGE, ckpt->directory,
                     "the checkpoint's rows ended at %s, where this run's are at %s: the data set has changed", a, b);
        lzt_hint(err, "restore the data set, use another output_dir, or set resume_from_checkpoint: none");
    }
    json_decref(then);
    json_decref(now);
    return status;
}

static lzt_status load(lzt_train_options *o, const lzt_ckpt *ckpt, lzt_error *err)
{
    lzt_engine_info info;
    lzt_engine_get_info(o->engine, &info);
    const lzt_ckpt_info *from = lzt_ckpt_get_info(ckpt);
    json_t *now = fields_of(&info, o->config, o->train);
    lzt_status status = compare_fields(o, from, &info, now, err);
    json_decref(now);
    if (!status) status = compare_position(o, from, err);
    if (status) return status;
    lzt_ckpt_tensor *tensor = tensors_of(&info, err);
    if (!tensor) return LZT_ERR_NO_MEMORY;
    status = lzt_ckpt_load(ckpt, tensor, info.model->tensor_count, sink, o->engine, err);
    free(tensor);
    if (status) return status;
    o->start_step = from->step;
    o->applied_steps = from->applied_steps;
    o->nonfinite_steps = from->nonfinite_steps;
    o->rows_seen = from->rows_seen;
    char line[256];
    snprintf(line, sizeof line, "going on from step %llu", (unsigned long long)from->step);
    if (o->note) o->note(o->note_arg, line);
    return LZT_OK;
}

lzt_status lzt_train_resume(lzt_train_options *o, lzt_error *err)
{
    const char *wanted = o->config->resume_from_checkpoint ? o->config->resume_from_checkpoint : "auto";
    lzt_ckpt *ckpt = NULL;
    o->start_step = o->applied_steps = o->nonfinite_steps = o->rows_seen = 0;
    if (!strcmp(wanted, "none")) return LZT_OK;
    lzt_status status = strcmp(wanted, "auto") ? lzt_ckpt_open(wanted, &ckpt, err)
                                               : lzt_ckpt_find_latest(o->checkpoints, o->note, o->note_arg, &ckpt, err);
    if (!status && ckpt) status = load(o, ckpt, err);
    lzt_ckpt_close(ckpt);
    return status;
}

/* The newest complete version's directory. */
static lzt_status take_newest(void *arg, const lzt_ckpt_version *version, lzt_error *err)
{
    (void)err;
    char *path = arg;
    if (!path[0] && version->is_complete) snprintf(path, PATH_BYTES, "%s", version->directory);
    return LZT_OK;
}

bool lzt_train_resume_time(const lzt_config *c, int64_t *seconds)
{
    char path[PATH_BYTES] = "", root[PATH_BYTES];
    const char *wanted = c->resume_from_checkpoint ? c->resume_from_checkpoint : "auto";
    lzt_error none;
    if (!strcmp(wanted, "none") || !c->output_dir) return false;
    snprintf(root, sizeof root, "%.4000s/checkpoints", c->output_dir);
    if (strcmp(wanted, "auto"))
        snprintf(path, sizeof path, "%.4000s", wanted);
    else if (lzt_ckpt_list(root, take_newest, path, &none))
        return false;
    strncat(path, "/trainer.json", sizeof path - strlen(path) - 1);
    json_t *trainer = json_load_file(path, 0, NULL);
    const json_t *time = json_object_get(json_object_get(trainer, "config"), "template_time");
    bool told = json_is_integer(time);
    if (told) *seconds = json_integer_value(time);
    json_decref(trainer);
    return told;
}
