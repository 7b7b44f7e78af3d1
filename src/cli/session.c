/* From a config to something that runs: see session.h. */
#include "cli/session.h"
#include "cli/session_step.h"
#include "cli/talk.h"

#include <fnmatch.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

lzt_status lzt_session_open_model(lzt_session *s, const char *path, lzt_error *err)
{
    lzt_status status = lzt_model_open(path, LZT_MODEL_WANT_WEIGHTS, &s->model, err);
    if (status) return status;
    s->info = lzt_model_get_info(s->model);
    if (s->info->quantized) {
        lzt_fail(err, LZT_ERR_MODEL, path,
                 "config.json has a quantization_config: quantised weights cannot be trained");
        return lzt_hint(err, "use the model's unquantised directory");
    }
    if (!s->info->trainable_arch)
        return lzt_fail(err, LZT_ERR_MODEL, path, "%s cannot be trained by this version%s%s", s->info->architecture,
                        s->info->not_trainable ? ": " : "", s->info->not_trainable ? s->info->not_trainable : "");
    return LZT_OK;
}

/* Whether the directory has weights to look at; a config.json alone has none. */
static bool has_weights(const char *path)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char file[4200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (!access(file, F_OK)) return true;
    }
    return false;
}

lzt_status lzt_session_open_model_to_plan(lzt_session *s, const char *path, lzt_error *err)
{
    bool weights = has_weights(path);
    lzt_status status = lzt_model_open(path, weights ? LZT_MODEL_WANT_WEIGHTS : LZT_MODEL_CONFIG_ONLY, &s->model, err);
    if (status) return status;
    s->info = lzt_model_get_info(s->model);
    if (!weights) lzt_talk("note: %s has no weights: planned from config.json alone", path);
    if (s->info->quantized) lzt_talk("note: quantization_config is ignored; a run refuses quantised weights");
    return LZT_OK;
}

lzt_status lzt_session_open_config(lzt_session *s, const char *path, lzt_error *err)
{
    lzt_status status = lzt_model_open(path, LZT_MODEL_CONFIG_ONLY, &s->model, err);
    if (!status) s->info = lzt_model_get_info(s->model);
    return status;
}

lzt_status lzt_session_open_tokenizer(lzt_session *s, const char *path, lzt_error *err)
{
    if (path) return lzt_tokenizer_open(path, NULL, &s->tokenizer, err);
    if (!lzt_tokenizer_present(s->info->directory)) return LZT_OK;
    /* Rows of ids need none, so one that cannot be read is no error yet; rows of text will say that they need it. */
    lzt_error why = {0};
    if (lzt_tokenizer_open(s->info->directory, NULL, &s->tokenizer, &why))
        lzt_talk("note: the model's tokenizer cannot be used: %s: %s", why.where, why.message);
    return LZT_OK;
}

lzt_status lzt_session_open_template(lzt_session *s, const char *name, lzt_error *err)
{
    if (!s->tokenizer || (name && !strcmp(name, "none"))) return LZT_OK; /* rows are ids, or pairs as they stand */
    lzt_status status = lzt_template_open(name, s->info->directory, &s->chat, err);
    return status == LZT_ERR_USAGE && !name ? LZT_OK : status;
}

/* Where tokenized_path puts made rows: a directory, or NULL. */
static const char *cache_directory(lzt_session *s)
{
    const char *wanted = s->config->tokenized_path, *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    if (!wanted || !strcmp(wanted, "none")) return NULL;
    if (strcmp(wanted, "auto")) return wanted;
    if (cache && *cache == '/') /* as its specification has it: what is not absolute is ignored */
        snprintf(s->cache_dir, sizeof s->cache_dir, "%s/lazytrain/rows", cache);
    else if (home && *home == '/')
        snprintf(s->cache_dir, sizeof s->cache_dir, "%s/.cache/lazytrain/rows", home);
    else
        return NULL;
    return s->cache_dir;
}

void lzt_session_say_cache(const lzt_dataset *dataset, bool all)
{
    lzt_dataset_report r;
    if (!dataset) return;
    lzt_dataset_get_report(dataset, &r);
    const char *what = lzt_dataset_path(dataset);
    if (r.cache == LZT_CACHE_REMADE)
        lzt_talk("note: %s: the kept rows were damaged (%s) and have been made anew: %s", what, r.cache_note,
                 r.cache_path);
    if (r.cache == LZT_CACHE_NOT_WRITTEN)
        lzt_talk("note: %s: the rows could not be kept for the next run: %s", what, r.cache_note);
    if (all && r.cache == LZT_CACHE_MADE) lzt_talk("%s: rows made, and kept in %s", what, r.cache_path);
    if (all && r.cache == LZT_CACHE_USED) lzt_talk("%s: rows as kept in %s", what, r.cache_path);
}

static uint32_t refused_rows(const lzt_config *c)
{
    static const struct {
        const char *name;
        lzt_refuse kind;
    } kinds[] = {{"untrained", LZT_REFUSE_UNTRAINED},
                 {"truncated", LZT_REFUSE_TRUNCATED},
                 {"double_bos", LZT_REFUSE_DOUBLE_BOS}};
    uint32_t refused = 0;
    for (uint64_t i = 0; i < c->refuse_rows.count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!strcmp(c->refuse_rows.item[i], kinds[k].name)) refused |= (uint32_t)kinds[k].kind;
    return refused;
}

/* What the config says of every dataset, whichever its part in the run. */
static lzt_dataset_options dataset_options(lzt_session *s, const char *path)
{
    const lzt_config *c = s->config;
    lzt_dataset_options options = LZT_DATASET_OPTIONS_INIT;
    options.path = path;
    options.vocabulary = s->info->vocabulary;
    options.tokenizer = s->tokenizer;
    options.chat = s->chat;
    if (!c) return options;
    options.dataset_dir = c->dataset_dir;
    options.max_seq_length = c->max_seq_length;
    options.max_samples = c->max_samples;
    options.query_field = c->query_field;
    options.response_field = c->response_field;
    options.on_bad_row = (lzt_bad_row)c->on_bad_row;
    options.truncation = (lzt_truncation)c->truncation;
    options.loss_on = (lzt_loss_on)c->loss_on;
    options.refuse = refused_rows(c);
    options.cache_dir = cache_directory(s);
    options.cache_large = s->cache_large;
    return options;
}

lzt_status lzt_session_open_dataset(lzt_session *s, const char *path, lzt_dataset **dataset, lzt_error *err)
{
    lzt_dataset_options options = dataset_options(s, path);
    return lzt_dataset_open(&options, dataset, err);
}

/* The training rows, and the rows of evaluation: of their own, or split off. */
static lzt_status open_datasets(lzt_session *s, lzt_error *err)
{
    const lzt_config *c = s->config;
    int64_t told;
    if (s->chat && lzt_template_asks_time(s->chat, &told) && lzt_train_resume_time(c, &told))
        lzt_template_set_time(s->chat, told);
    lzt_dataset_options options = dataset_options(s, c->dataset);
    options.val_size = c->val_size;
    options.split_seed = c->seed;
    options.side = LZT_SIDE_VALIDATION;
    lzt_status status = LZT_OK;
    if (c->val_size > 0) status = lzt_dataset_open(&options, &s->eval, err);
    /* The training rows are made on a thread of their own, beside evaluation: they have a template of their own. */
    if (!status && s->chat) status = lzt_template_open(c->chat_template, s->info->directory, &s->train_chat, err);
    if (!status && s->chat) lzt_template_set_time(s->train_chat, told);
    options.chat = s->train_chat;
    options.side = LZT_SIDE_TRAIN;
    options.mix = (lzt_mix)c->mix_strategy;
    options.weights = c->mix_weight;
    options.weight_count = c->mix_weight_count;
    if (!status) status = lzt_dataset_open(&options, &s->train, err);
    if (!status && c->eval_dataset) status = lzt_session_open_dataset(s, c->eval_dataset, &s->eval, err);
    return status;
}

lzt_status lzt_session_open_data(lzt_session *s, lzt_error *err)
{
    const lzt_config *c = s->config;
    lzt_batcher_options options = LZT_BATCHER_OPTIONS_INIT;
    options.seed = c->data_seed;
    options.micro_batch_rows = c->per_device_train_batch_size;
    options.accumulation = c->gradient_accumulation_steps;
    options.epochs = c->num_train_epochs;
    options.max_steps = c->max_steps > 0 ? (uint64_t)c->max_steps : 0;
    options.disable_shuffling = c->disable_shuffling;
    options.drop_last = c->dataloader_drop_last;
    options.packing = c->packing;
    options.group_by_length = c->group_by_length;
    options.pack_tokens = c->max_seq_length;
    if (c->packing && !c->max_seq_length) {
        lzt_fail(err, LZT_ERR_USAGE, "packing", "rows are packed into sequences of max_seq_length tokens: set it");
        return lzt_hint(err, "for example max_seq_length: 1024");
    }
    lzt_status status = lzt_session_open_tokenizer(s, c->tokenizer, err);
    if (!status) status = lzt_session_open_template(s, c->chat_template, err);
    if (!status) status = open_datasets(s, err);
    if (!status) status = lzt_batcher_create(s->train, &options, &s->batcher, err);
    return status;
}

lzt_status lzt_session_eval_capacity(lzt_dataset *dataset, uint64_t rows, uint64_t limit, uint64_t *tokens,
                                     lzt_error *err)
{
    lzt_batcher *batcher;
    lzt_batcher_options options = LZT_BATCHER_OPTIONS_INIT;
    options.micro_batch_rows = rows;
    options.disable_shuffling = true;
    options.max_steps = (limit + rows - 1) / rows;
    lzt_status status = lzt_batcher_create(dataset, &options, &batcher, err);
    if (status) return status;
    *tokens = lzt_batcher_capacity(batcher);
    lzt_batcher_destroy(batcher);
    return LZT_OK;
}

lzt_dtype lzt_session_dtype(const lzt_session *s, const char *text)
{
    if (text) return strcmp(text, "bf16") ? LZT_DTYPE_F32 : LZT_DTYPE_BF16;
    return s->info->dtype == LZT_DTYPE_BF16 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
}

static uint64_t cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint64_t)CPU_COUNT(&set);
}

/* The config's numerics over the defaults. */
static lzt_status override_numerics(const lzt_config *c, uint64_t capacity, lzt_numerics *n, lzt_error *err)
{
    if (c->numerics.micro_batch_tokens) {
        if (c->numerics.micro_batch_tokens < capacity) {
            char where[256];
            lzt_config_origin(c, "numerics.micro_batch_tokens", where, sizeof where);
            lzt_fail(err, LZT_ERR_USAGE, where,
                     "numerics.micro_batch_tokens: %llu is less than the %llu tokens of the "
                     "largest micro-batch",
                     (unsigned long long)c->numerics.micro_batch_tokens, (unsigned long long)capacity);
            return lzt_hint(err, "raise it, lower per_device_train_batch_size, or set max_seq_length");
        }
        n->micro_batch_tokens = c->numerics.micro_batch_tokens;
    }
    if (c->numerics.loss_chunk) n->loss_chunk = c->numerics.loss_chunk;
    if (n->loss_chunk > n->micro_batch_tokens) n->loss_chunk = n->micro_batch_tokens;
    if (c->numerics.attention_tile) n->attention_tile = c->numerics.attention_tile;
    if (c->numerics.grad_dtype == LZT_CONFIG_GRAD_F32) n->grad_dtype = LZT_DTYPE_F32;
    if (c->numerics.grad_dtype == LZT_CONFIG_GRAD_BF16) n->grad_dtype = LZT_DTYPE_BF16;
    return LZT_OK;
}

static void describe_device(lzt_session *s)
{
    const lzt_config *c = s->config;
    char *text = s->device_text;
    size_t size = sizeof s->device_text;
    int n = snprintf(text, size, "%s", s->kern->ops->description(s->kern));
    if (c && c->device && !strcmp(c->device, "cpu-checked") && n < (int)size)
        n += snprintf(text + n, size - (size_t)n, ", checked");
    if (c && c->memory.link_gbps > 0 && n < (int)size)
        n += snprintf(text + n, size - (size_t)n, ", link %g GB/s", c->memory.link_gbps);
    if (c && c->memory.compute_slowdown > 1 && n < (int)size)
        snprintf(text + n, size - (size_t)n, ", compute x%g", c->memory.compute_slowdown);
}

lzt_status lzt_session_open_profile(lzt_session *s, lzt_error *err)
{
    const lzt_config *c = s->config;
    char *path = s->profile_path;
    const size_t size = sizeof s->profile_path;
    lzt_error why = {0};
    snprintf(path, size, "%s/profile.json", c->output_dir ? c->output_dir : ".");
    bool named = c->memory.profile != NULL;
    if (named) snprintf(path, size, "%s", c->memory.profile);
    if (!named && (!c->output_dir || access(path, F_OK))) return LZT_OK;
    lzt_status status = lzt_profile_read(path, &s->profile, &why);
    if (status && named) {
        *err = why;
        return status;
    }
    if (status) {
        lzt_talk("note: %s is not used: %s", path, why.message);
        return LZT_OK;
    }
    s->has_profile = named || !strcmp(s->profile.device, s->device_text);
    if (strcmp(s->profile.device, s->device_text))
        lzt_talk("note: %s was measured on \"%s\", this run computes on \"%s\"%s", path, s->profile.device,
                 s->device_text, named ? "" : ": not used");
    if (!s->has_profile) lzt_profile_fini(&s->profile);
    return LZT_OK;
}

/* Marks the tensors that the globs of `freeze` name; a glob that names none is a mistake. */
static lzt_status mark_frozen(lzt_session *s, lzt_error *err)
{
    if (!s->config || !s->config->freeze.count) return LZT_OK;
    s->frozen = calloc(s->info->tensor_count, sizeof *s->frozen);
    if (!s->frozen) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the list of frozen tensors");
    for (uint64_t g = 0; g < s->config->freeze.count; g++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < s->info->tensor_count; i++)
            if (!fnmatch(s->config->freeze.item[g], s->info->tensor[i].name, 0)) s->frozen[i] = true, found++;
        if (found) continue;
        lzt_fail(err, LZT_ERR_USAGE, "freeze", "\"%s\" names no tensor of the model", s->config->freeze.item[g]);
        return lzt_hint(err, "lazytrain model inspect %s lists them", s->info->directory);
    }
    return LZT_OK;
}

lzt_status lzt_session_open_kernels(lzt_session *s, lzt_dtype dtype, uint64_t capacity, uint64_t micro_batches,
                                    bool training, lzt_error *err)
{
    lzt_kern_cpu_options options = LZT_KERN_CPU_OPTIONS_INIT;
    uint64_t threads = s->config ? s->config->numerics.threads : 0;
    options.threads = (uint32_t)(threads ? threads : cores());
    lzt_status status = lzt_kern_cpu_create(&options, &s->kern, err);
    if (status) return status;
    lzt_numerics_default(s->info, dtype, capacity, micro_batches, options.threads, &s->numerics);
    if (s->config) status = override_numerics(s->config, capacity, &s->numerics, err);
    if (!status) status = mark_frozen(s, err);
    describe_device(s);
    s->caps = (lzt_auto_options){.model = s->info,
                                 .numerics = &s->numerics,
                                 .kern = s->kern,
                                 .micro_batches = micro_batches,
                                 .training = training,
                                 .frozen = s->frozen};
    if (s->config) {
        s->caps.device_cap_bytes = s->config->memory.device_cap;
        s->caps.host_cap_bytes = s->config->memory.host_cap;
    }
    return status;
}

lzt_status lzt_session_check_spill(const lzt_config *c, lzt_error *err)
{
    lzt_plan plan;
    const char *path = c->memory.plan;
    uint64_t spilled = 0;
    if (!path || !strcmp(path, "auto") || !strcmp(path, "baseline") || c->memory.lazy_nvme_offload_dir) return LZT_OK;
    lzt_status status = lzt_plan_read(path, &plan, err);
    if (status) return status;
    for (uint64_t i = 0; i <= plan.layer_count; i++) spilled += plan.boundary[i] == LZT_TIER_NVME;
    lzt_plan_fini(&plan);
    if (!spilled) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, path, "%llu checkpoints lie on nvme, and memory.lazy_nvme_offload_dir is missing",
             (unsigned long long)spilled);
    return lzt_hint(err, "name a directory on the drive");
}

lzt_status lzt_session_read_plan(lzt_session *s, const char *path, lzt_error *err)
{
    lzt_status status = lzt_plan_read(path, &s->plan, err);
    if (!status) status = lzt_plan_match(&s->plan, s->info, err);
    if (!status) status = lzt_plan_require(&s->plan, path, err);
    if (status) return status;
    const lzt_numerics *theirs = &s->plan.numerics, *ours = &s->numerics;
    if (theirs->micro_batch_tokens < ours->micro_batch_tokens) {
        lzt_fail(err, LZT_ERR_USAGE, path, "the plan holds %llu tokens a micro-batch, the run needs %llu",
                 (unsigned long long)theirs->micro_batch_tokens, (unsigned long long)ours->micro_batch_tokens);
        return lzt_hint(err, "make a plan for this batch, or use memory.plan: auto");
    }
    if (theirs->dtype != ours->dtype)
        return lzt_fail(err, LZT_ERR_USAGE, path, "the plan computes in %s, the run in %s",
                        lzt_dtype_name(theirs->dtype), lzt_dtype_name(ours->dtype));
    if (theirs->threads && theirs->threads != ours->threads)
        return lzt_fail(err, LZT_ERR_USAGE, path, "the plan computes with %llu threads, the run with %llu",
                        (unsigned long long)theirs->threads, (unsigned long long)ours->threads);
    s->numerics = *theirs;
    s->numerics.threads = s->plan.numerics.threads = ours->threads;
    return LZT_OK;
}

lzt_status lzt_session_measure_plan(lzt_session *s, lzt_error *err)
{
    uint64_t peak[LZT_SPACE_COUNT];
    lzt_status status = lzt_plan_measure(&s->caps, &s->plan, peak, err);
    if (status) return status;
    static const char *const keys[LZT_SPACE_COUNT] = {"device_cap", "host_cap"};
    const uint64_t cap[LZT_SPACE_COUNT] = {s->caps.device_cap_bytes, s->caps.host_cap_bytes};
    for (int i = 0; i < LZT_SPACE_COUNT; i++)
        if (cap[i] && peak[i] > cap[i]) {
            lzt_fail(err, LZT_ERR_NO_PLAN, "memory", "%s: needs at least %llu bytes", keys[i],
                     (unsigned long long)peak[i]);
            return lzt_hint(
                err, "this plan does not fit the %llu that are allowed; memory.plan: auto may find one that does",
                (unsigned long long)cap[i]);
        }
    return LZT_OK;
}

lzt_status lzt_session_choose_plan(lzt_session *s, lzt_error *err)
{
    const char *wanted = s->config && s->config->memory.plan ? s->config->memory.plan : "auto";
    bool planned = false;
    lzt_status status = LZT_OK;
    if (!strcmp(wanted, "auto")) {
        bool kept = s->caps.training && lzt_session_keep_numerics(s);
        if (s->has_profile && s->caps.training) status = lzt_session_plan_step(s, !kept, &planned, err);
        return status || planned ? status : lzt_auto_plan(&s->caps, &s->plan, err);
    }
    if (!strcmp(wanted, "baseline"))
        status = lzt_plan_baseline(s->info, &s->numerics, s->config->memory.checkpoint_interval, &s->plan, err);
    else
        status = lzt_session_read_plan(s, wanted, err);
    return status ? status : lzt_session_measure_plan(s, err);
}

static lzt_status open_device(const lzt_session *s, lzt_dev **dev, lzt_error *err)
{
    lzt_dev_cpu_options options = LZT_DEV_CPU_OPTIONS_INIT;
    const lzt_config *c = s->config;
    if (c) {
        options.device_cap_bytes = c->memory.device_cap;
        options.host_cap_bytes = c->memory.host_cap;
        options.h2d_bytes_per_s = options.d2h_bytes_per_s = c->memory.link_gbps * 1e9;
        options.compute_slowdown = c->memory.compute_slowdown;
    }
    lzt_status status = lzt_dev_cpu_create(&options, dev, err);
    if (status || !c || !c->device || strcmp(c->device, "cpu-checked")) return status;
    lzt_dev_checked_options checked = LZT_DEV_CHECKED_OPTIONS_INIT;
    checked.seed = c->seed;
    return lzt_dev_checked_create(&checked, *dev, dev, err);
}

lzt_status lzt_session_open_exam(lzt_session *s, lzt_dataset *dataset, uint64_t rows, uint64_t max_new_tokens,
                                 const char *pattern, uint64_t *capacity, lzt_error *err)
{
    lzt_exam_options options = LZT_EXAM_OPTIONS_INIT;
    lzt_cache_shape wanted;
    options.dataset = dataset;
    options.tokenizer = s->tokenizer;
    options.pattern = pattern;
    options.rows = rows;
    options.max_new_tokens = max_new_tokens;
    lzt_status status = lzt_exam_create(&options, &s->exam, err);
    if (status) return status;
    lzt_exam_cache(s->exam, &wanted);
    if (wanted.prompt_tokens > *capacity) *capacity = wanted.prompt_tokens;
    if (lzt_exam_unknown(s->exam))
        lzt_talk("note: answer_pattern finds no answer in %llu rows' own answers; they can only be wrong",
                 (unsigned long long)lzt_exam_unknown(s->exam));
    return LZT_OK;
}

lzt_status lzt_session_open_evaluation(lzt_session *s, uint64_t *capacity, lzt_error *err)
{
    const lzt_config *c = s->config;
    uint64_t tokens;
    if (!s->eval) return LZT_OK;
    lzt_status status =
        lzt_session_eval_capacity(s->eval, c->per_device_eval_batch_size, c->eval_loss_samples, &tokens, err);
    if (status) return status;
    if (tokens > *capacity) *capacity = tokens;
    if (!c->eval_samples || c->eval_strategy == LZT_CONFIG_STRATEGY_NO) return LZT_OK;
    return lzt_session_open_exam(s, s->eval, c->eval_samples, c->eval_max_new_tokens, c->answer_pattern, capacity, err);
}

lzt_status lzt_session_fit_cache(const lzt_session *s, const lzt_cache_shape *wanted, lzt_cache_shape *cache,
                                 lzt_error *err)
{
    lzt_cache_shape own;
    if (!wanted && s->exam) {
        lzt_exam_cache(s->exam, &own);
        wanted = &own;
    }
    *cache = (lzt_cache_shape){0};
    return wanted ? lzt_cache_fit(&s->caps, &s->plan, wanted, cache, err) : LZT_OK;
}

lzt_status lzt_session_open_engine(lzt_session *s, const lzt_cache_shape *wanted, lzt_error *err)
{
    lzt_engine_options options = LZT_ENGINE_OPTIONS_INIT;
    lzt_status fitted = lzt_session_fit_cache(s, wanted, &options.cache, err);
    if (fitted) return fitted;
    lzt_status status = open_device(s, &options.dev, err);
    if (status) return status;
    options.frozen = s->frozen;
    options.model = s->model;
    options.plan = &s->plan;
    options.kern = s->kern;
    options.training = s->caps.training;
    options.micro_batches = s->caps.micro_batches;
    s->kern = NULL;
    status = lzt_engine_create(&options, &s->engine, err);
    if (!status) status = lzt_engine_load(s->engine, err);
    if (!status) lzt_model_drop_mappings(s->model);
    return status;
}

void lzt_session_close(lzt_session *s)
{
    lzt_engine_destroy(s->engine);
    lzt_exam_destroy(s->exam);
    lzt_plan_fini(&s->plan);
    lzt_profile_fini(&s->profile);
    lzt_kern_destroy(s->kern);
    free(s->frozen);
    lzt_batcher_destroy(s->batcher);
    lzt_dataset_close(s->eval);
    lzt_dataset_close(s->train);
    lzt_template_close(s->train_chat);
    lzt_template_close(s->chat);
    lzt_tokenizer_close(s->tokenizer);
    lzt_model_close(s->model);
    memset(s, 0, sizeof *s);
}
