/* lazytrain ckpt ls, verify, prune, export: the versions of a run's state. */
#include "cli/commands.h"
#include "cli/talk.h"

#include "base/units.h"
#include "lazytrain/ckpt.h"
#include "lazytrain/model.h"
#include "lazytrain/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* DIR may be the run's output directory or its checkpoints/. */
static void root_of(const char *dir, char *root, size_t size)
{
    snprintf(root, size, "%s/checkpoints", dir);
    if (access(root, F_OK)) snprintf(root, size, "%s", dir);
}

static lzt_status check_exists(const char *root, lzt_error *err)
{
    if (!access(root, R_OK | X_OK)) return LZT_OK;
    return lzt_fail(err, LZT_ERR_MODEL, root, "no such directory of checkpoints");
}

/* ---- ls ---- */

typedef struct listing {
    json_t *json;
    lzt_table *table;
} listing;

static lzt_status list_version(void *arg, const lzt_ckpt_version *v, lzt_error *err)
{
    (void)err;
    listing *l = arg;
    char text[LZT_UNITS_TEXT];
    json_array_append_new(l->json, json_pack("{s:I, s:I, s:b, s:s, s:s}", "step", (json_int_t)v->step, "bytes",
                                             (json_int_t)v->bytes, "complete", v->is_complete, "problem", v->problem,
                                             "directory", v->directory));
    lzt_table_cell(l->table, "%llu", (unsigned long long)v->step);
    lzt_table_cell(l->table, "%s", v->is_complete ? lzt__units_format_bytes(v->bytes, text) : "?");
    lzt_table_cell(l->table, "%s", v->is_complete ? "complete" : v->problem);
    return LZT_OK;
}

static lzt_status list(const lzt_args *args, lzt_error *err)
{
    static const lzt_table_column columns[] = {{"step", true}, {"bytes", true}, {"state", false}};
    char root[4096];
    root_of(lzt_args_text(args, "DIR"), root, sizeof root);
    lzt_status status = check_exists(root, err);
    if (status) return status;
    listing l = {json_array(), lzt_table_create(columns, LZT_COUNT(columns))};
    status = lzt_ckpt_list(root, list_version, &l, err);
    if (!status && lzt_args_flag(args, "json"))
        status = lzt_talk_json(json_pack("{s:O}", "versions", l.json), err);
    else if (!status)
        status = lzt_table_print(l.table, stdout, err);
    json_decref(l.json);
    lzt_table_destroy(l.table);
    return status;
}

/* ---- verify ---- */

typedef struct verification {
    json_t *json;
    bool say;
    lzt_status first; /* the first error; the errors themselves are said one by one */
    uint32_t bad;
} verification;

static lzt_status verify_directory(verification *v, const char *directory)
{
    lzt_ckpt *ckpt;
    lzt_error why = {0};
    lzt_status status = lzt_ckpt_open(directory, &ckpt, &why);
    uint64_t bytes = status ? 0 : lzt_ckpt_get_info(ckpt)->bytes;
    json_array_append_new(v->json, json_pack("{s:s, s:b, s:I, s:s, s:s}", "directory", directory, "valid", !status,
                                             "bytes", (json_int_t)bytes, "where", why.where, "error", why.message));
    if (v->say && status) lzt_talk("%s: %s: %s", directory, why.where, why.message);
    if (v->say && !status) printf("%s: valid, %llu bytes\n", directory, (unsigned long long)bytes);
    if (status && !v->first) v->first = status;
    v->bad += status != LZT_OK;
    lzt_ckpt_close(ckpt);
    return LZT_OK;
}

static lzt_status verify_version(void *arg, const lzt_ckpt_version *version, lzt_error *err)
{
    (void)err;
    return verify_directory(arg, version->directory);
}

static bool is_version(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/MANIFEST.json", dir);
    return !access(path, F_OK);
}

static lzt_status verify(const lzt_args *args, lzt_error *err)
{
    char root[4096];
    const char *dir = lzt_args_text(args, "DIR");
    bool json = lzt_args_flag(args, "json");
    verification v = {json_array(), !json, LZT_OK, 0};
    lzt_status status = LZT_OK;
    if (is_version(dir)) {
        status = verify_directory(&v, dir);
    } else {
        root_of(dir, root, sizeof root);
        status = check_exists(root, err);
        if (!status) status = lzt_ckpt_list(root, verify_version, &v, err);
    }
    if (!status && !json_array_size(v.json)) status = lzt_fail(err, LZT_ERR_MODEL, dir, "holds no checkpoints");
    if (!status && json) status = lzt_talk_json(json_pack("{s:b, s:O}", "valid", !v.bad, "versions", v.json), err);
    if (!status && v.bad)
        status = lzt_fail(err, v.first, dir, "%u of %zu versions are not whole", v.bad, json_array_size(v.json));
    json_decref(v.json);
    return status;
}

/* ---- prune ---- */

static void collect_line(void *arg, const char *line)
{
    json_array_append_new(arg, json_string(line));
}

/* "step-N: WHAT": into the list that its WHAT names. */
static void sort_line(const char *line, json_t *removed, json_t *kept)
{
    const char *colon = strchr(line, ':');
    if (!colon) return;
    bool is_kept = !strncmp(colon, ": kept", 6);
    json_array_append_new(is_kept ? kept : removed, json_stringn(line, (size_t)(colon - line)));
}

static lzt_status prune(const lzt_args *args, lzt_error *err)
{
    char root[4096];
    root_of(lzt_args_text(args, "DIR"), root, sizeof root);
    lzt_status status = check_exists(root, err);
    if (status) return status;
    json_t *lines = json_array(), *removed = json_array(), *kept = json_array();
    status =
        lzt_ckpt_prune(root, lzt_args_uint(args, "keep"), lzt_args_flag(args, "dry-run"), collect_line, lines, err);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *line = json_string_value(json_array_get(lines, i));
        sort_line(line, removed, kept);
        if (!lzt_args_flag(args, "json")) printf("%s\n", line);
    }
    if (!status && lzt_args_flag(args, "json"))
        status = lzt_talk_json(
            json_pack("{s:b, s:O, s:O}", "dry_run", lzt_args_flag(args, "dry-run"), "removed", removed, "kept", kept),
            err);
    json_decref(lines);
    json_decref(removed);
    json_decref(kept);
    return status;
}

/* ---- export ---- */

typedef struct masters {
    const lzt_ckpt *ckpt;
    const lzt_model_info *info;
    bool bf16;
} masters;

/* The weight that the training used: the master, or its upper half (which is not the nearest BF16 in a tie). */
static lzt_status read_master(void *arg, uint32_t tensor, float *out, lzt_error *err)
{
    const masters *m = arg;
    const lzt_tensor *t = &m->info->tensor[tensor];
    lzt_status status = lzt_ckpt_read(m->ckpt, t->name, LZT_CKPT_MASTER, out, t->element_count, err);
    for (uint64_t i = 0; i < t->element_count && !status && m->bf16 && !t->keep_f32; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        out[i] = lzt_bf16_to_f32(lzt_bf16_hi(bits));
    }
    return status;
}

/* "model_name_or_path" of the checkpoint's config, into text. */
static bool model_of(const lzt_ckpt_info *info, char *text, size_t size)
{
    json_t *config = json_loads(info->config_json, 0, NULL);
    const char *path = json_string_value(json_object_get(config, "model_name_or_path"));
    if (path) snprintf(text, size, "%s", path);
    bool found = path != NULL;
    json_decref(config);
    return found;
}

static lzt_status open_version(const char *dir, lzt_ckpt **ckpt, lzt_error *err)
{
    char root[4096];
    if (is_version(dir)) return lzt_ckpt_open(dir, ckpt, err);
    root_of(dir, root, sizeof root);
    lzt_status status = lzt_ckpt_find_latest(root, NULL, NULL, ckpt, err);
    if (status || *ckpt) return status;
    return lzt_fail(err, LZT_ERR_MODEL, dir, "holds no complete checkpoint");
}

static lzt_dtype dtype_of(const lzt_args *args, const lzt_model_info *info)
{
    const char *name = lzt_args_text(args, "dtype");
    if (name) return !strcmp(name, "f32") ? LZT_DTYPE_F32 : LZT_DTYPE_BF16;
    return info->dtype == LZT_DTYPE_BF16 || info->dtype == LZT_DTYPE_F16 ? info->dtype : LZT_DTYPE_F32;
}

static lzt_status open_source(const lzt_args *args, const lzt_ckpt_info *info, lzt_model **model, lzt_error *err)
{
    char path[4096];
    const char *given = lzt_args_text(args, "model");
    if (given) {
        snprintf(path, sizeof path, "%s", given);
    } else if (!model_of(info, path, sizeof path)) {
        lzt_fail(err, LZT_ERR_USAGE, info->directory, "does not say which model it was trained from");
        return lzt_hint(err, "name its directory with --model");
    }
    lzt_status status = lzt_model_open(path, LZT_MODEL_WANT_WEIGHTS, model, err);
    if (status || lzt_model_get_info(*model)->fingerprint == info->model_fingerprint) return status;
    lzt_model_close(*model);
    *model = NULL;
    return lzt_fail(err, LZT_ERR_MODEL, info->directory, "is not of the model in %.1024s", path);
}

static lzt_status export(const lzt_args *args, lzt_error *err)
{
    lzt_ckpt *ckpt = NULL;
    lzt_model *model = NULL;
    const char *out = lzt_args_text(args, "OUT");
    lzt_status status = open_version(lzt_args_text(args, "DIR"), &ckpt, err);
    if (status) return status;
    const lzt_ckpt_info *info = lzt_ckpt_get_info(ckpt);
    status = open_source(args, info, &model, err);
    if (!status) {
        masters m = {ckpt, lzt_model_get_info(model), false};
        lzt_dtype dtype = dtype_of(args, m.info);
        m.bf16 = dtype == LZT_DTYPE_BF16;
        status = lzt_model_export(model, out, dtype, read_master, &m, err);
        if (!status && lzt_args_flag(args, "json"))
            status = lzt_talk_json(json_pack("{s:s, s:I, s:s}", "directory", out, "step", (json_int_t)info->step,
                                             "dtype", lzt_dtype_name(dtype)),
                                   err);
        else if (!status)
            printf("%s: step %llu as %s\n", out, (unsigned long long)info->step, lzt_dtype_name(dtype));
    }
    lzt_model_close(model);
    lzt_ckpt_close(ckpt);
    return status;
}

/* ---- tables ---- */

#define DIR_OPERAND                                                                                                    \
    {                                                                                                                  \
        .name = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "a run's output_dir, or its checkpoints/"    \
    }

static const lzt_option list_options[] = {DIR_OPERAND, LZT_OPTION_JSON};

const lzt_command lzt_command_ckpt_ls = {
    .name = "ckpt ls",
    .summary = "list the versions of a run's state",
    .example = "lazytrain ckpt ls out",
    .details = "A version is complete when its manifest matches its own hash and the files have the manifest's sizes; "
               "ckpt verify reads the files, too.",
    .option = list_options,
    .option_count = LZT_COUNT(list_options),
    .run = list};

static const lzt_option verify_options[] = {DIR_OPERAND, LZT_OPTION_JSON};

const lzt_command lzt_command_ckpt_verify = {
    .name = "ckpt verify",
    .summary = "hash every byte of every version, or of one (DIR/step-N)",
    .example = "lazytrain ckpt verify out",
    .details = "Exit code 5 when a version is not whole; each is named with the file that is at fault.",
    .option = verify_options,
    .option_count = LZT_COUNT(verify_options),
    .run = verify};

static const lzt_option prune_options[] = {
    DIR_OPERAND,
    {.name = "keep", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "1", .help = "complete versions to keep"},
    {.name = "dry-run", .help = "say what would be removed, and remove nothing"},
    LZT_OPTION_JSON};

const lzt_command lzt_command_ckpt_prune = {
    .name = "ckpt prune",
    .summary = "remove all but the newest complete versions",
    .example = "lazytrain ckpt prune out --keep 2",
    .details = "Versions that are not complete are removed, too, if a complete one stays.",
    .option = prune_options,
    .option_count = LZT_COUNT(prune_options),
    .run = prune};

static const lzt_option export_options[] = {
    {.name = "DIR",
     .type = LZT_OPTION_PATH,
     .required = true,
     .help = "a run's output_dir (its newest version), or one step-N"},
    {.name = "OUT", .type = LZT_OPTION_PATH, .required = true, .help = "the directory to write"},
    {.name = "model",
     .argument = "DIR",
     .type = LZT_OPTION_PATH,
     .help = "the model it was trained from; default: the one that the checkpoint names"},
    {.name = "dtype",
     .argument = "TYPE",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .help = "default: that of the model's directory"},
    LZT_OPTION_JSON};

const lzt_command lzt_command_ckpt_export = {
    .name = "ckpt export",
    .summary = "write a version's weights as a Hugging Face directory",
    .example = "lazytrain ckpt export out/checkpoints/step-40 exported --model models/smollm2-135m",
    .details =
        "Shards, tokenizer and config are those of the model's directory; the weights are the FP32 master, or its "
        "bfloat16 half.",
    .option = export_options,
    .option_count = LZT_COUNT(export_options),
    .run = export};
