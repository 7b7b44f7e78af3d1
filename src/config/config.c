/* Loading a config: entries of the file and of the command line, by the schema, into lzt_config. See config.h.
 *
 *     defaults -> file -> command line -> cross-checks -> values of missing features refused
 *
 * Every key is set at most once per source, so the origin of a value is one entry. */
#include "lazytrain/config.h"

#include "base/os.h"
#include "config/key_value.h"
#include "config/scalar.h"
#include "config/schema.h"
#include "config/yaml_entries.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 4 << 20, VALUE_SIZE = 65536 };

typedef enum source { SOURCE_DEFAULT = 0, SOURCE_FILE, SOURCE_COMMAND_LINE } source;

typedef struct origin {
    source source;
    uint32_t line;
    bool is_set; /* the field has a value: written, or from the key's default */
} origin;

struct lzt_config_private {
    lzt_strings strings;
    char *name;     /* of the file */
    bool to_plan;   /* values that only a plan uses are let through */
    origin *origin; /* [lzt__schema_count()] */
};

uint64_t lzt_steps_of(lzt_steps steps, uint64_t total)
{
    if (steps.ratio > 0) return (uint64_t)ceil(steps.ratio * (double)total);
    return steps.steps;
}

static int key_index(const char *name)
{
    int index = lzt__schema_find(name);
    assert(index >= 0);
    return index;
}

const char *lzt_config_origin(const lzt_config *config, const char *key, char *text, size_t size)
{
    const struct lzt_config_private *p = config->private_data;
    const origin *o = &p->origin[key_index(key)];
    if (o->source == SOURCE_FILE)
        snprintf(text, size, "%s:%u", p->name, o->line);
    else
        snprintf(text, size, "%s", o->source == SOURCE_DEFAULT ? "default" : "command line");
    return text;
}

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the config");
}

/* An error at the place that a key's value came from. */
static lzt_status fail_key(const lzt_config *config, int index, lzt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static lzt_status fail_key(const lzt_config *config, int index, lzt_error *err, const char *fmt, ...)
{
    char where[480], message[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    lzt_config_origin(config, lzt__schema_key(index)->name, where, sizeof where);
    return lzt_fail(err, LZT_ERR_USAGE, where, "%s", message);
}

static lzt_status fail_entry(const lzt_config *config, const lzt_entry *entry, lzt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static lzt_status fail_entry(const lzt_config *config, const lzt_entry *entry, lzt_error *err, const char *fmt, ...)
{
    char where[480], message[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (entry->line)
        snprintf(where, sizeof where, "%.440s:%u", config->private_data->name, entry->line);
    else
        snprintf(where, sizeof where, "command line");
    return lzt_fail(err, LZT_ERR_USAGE, where, "%s", message);
}

static lzt_status unknown_key(const lzt_config *config, const lzt_entry *entry, lzt_error *err)
{
    char buffer[128];
    fail_entry(config, entry, err, "unknown key %s", entry->path);
    const char *best = lzt__schema_nearest(entry->path, buffer, sizeof buffer);
    if (best) return lzt_hint(err, "did you mean %s?", best);
    return lzt_hint(err, "docs/config.md lists the keys; keys that begin with x- are yours");
}

/* Zeroes the field and gives it the key's default. */
static void set_default(lzt_config *config, int index)
{
    static const size_t bytes[] = {
        [LZT_KEY_TEXT] = sizeof(char *),        [LZT_KEY_BOOL] = sizeof(bool),
        [LZT_KEY_UINT] = sizeof(uint64_t),      [LZT_KEY_INT] = sizeof(int64_t),
        [LZT_KEY_REAL] = sizeof(double),        [LZT_KEY_SIZE] = sizeof(uint64_t),
        [LZT_KEY_STEPS] = sizeof(lzt_steps),    [LZT_KEY_CHOICE] = sizeof(int),
        [LZT_KEY_LIST] = sizeof(lzt_text_list), [LZT_KEY_NONE] = 0,
    };
    const lzt_key *key = lzt__schema_key(index);
    origin *o = &config->private_data->origin[index];
    void *field = (char *)config + key->offset;
    if (key->type == LZT_KEY_LIST) free(((lzt_text_list *)field)->item);
    memset(field, 0, bytes[key->type]);
    *o = (origin){.is_set = key->fallback || key->type == LZT_KEY_LIST};
    if (!key->fallback) return;
    char why[256];
    bool ok = lzt__value_read(key, key->fallback, config, &config->private_data->strings, why, sizeof why);
    assert(ok && "a default of the schema does not pass its own check");
    (void)ok;
}

static lzt_status refuse_value(const lzt_config *config, const lzt_entry *entry, const char *text, const char *why,
                               lzt_error *err)
{
    return fail_entry(config, entry, err, "%s: '%.200s' %s", entry->path, text, why);
}

/* A key without effect: checked against its choices, and noted. */
static lzt_status take_none(lzt_config *config, const lzt_entry *entry, const lzt_key *key, lzt_error *err)
{
    char note[512], why[256];
    if (entry->kind == LZT_ENTRY_MAP) return unknown_key(config, entry, err);
    struct lzt_config_private *p = config->private_data;
    if (entry->text && !lzt__value_read(key, entry->text, config, &p->strings, why, sizeof why))
        return refuse_value(config, entry, entry->text, why, err);
    snprintf(note, sizeof note, "%s has no effect: %s", entry->path, key->help);
    return lzt__strings_append(&p->strings, &config->note, note) ? LZT_OK : no_memory(err);
}

static lzt_status take_text(lzt_config *config, const lzt_entry *entry, const lzt_key *key, const char *text,
                            lzt_error *err)
{
    char why[256];
    if (lzt__value_read(key, text, config, &config->private_data->strings, why, sizeof why)) return LZT_OK;
    return refuse_value(config, entry, text, why, err);
}

static lzt_status take_null(lzt_config *config, const lzt_entry *entry, const lzt_key *key, int index, lzt_error *err)
{
    bool is_word = key->type == LZT_KEY_TEXT || key->type == LZT_KEY_LIST || key->type == LZT_KEY_CHOICE;
    if (entry->is_empty && !is_word) {
        fail_entry(config, entry, err, "%s has no value", entry->path);
        return lzt_hint(err, "write null for the default");
    }
    origin *o = &config->private_data->origin[index];
    if (!key->null_value && o->source == SOURCE_FILE) *o = (origin){.is_set = o->is_set}; /* as if it were absent */
    if (!key->null_value) return LZT_OK;
    return take_text(config, entry, key, key->null_value, err);
}

static lzt_status take_list(lzt_config *config, const lzt_entry *entry, const lzt_key *key, lzt_error *err)
{
    if (key->type != LZT_KEY_LIST) return fail_entry(config, entry, err, "%s takes one value, not a list", entry->path);
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < entry->item_count && !status; i++)
        status = take_text(config, entry, key, entry->item[i], err);
    char text[VALUE_SIZE];
    if (status || lzt__value_print(key, config, true, text, sizeof text)) return status;
    return fail_entry(config, entry, err, "%s: the list is too long", entry->path);
}

static lzt_status given_twice(const lzt_config *config, const lzt_entry *entry, int index, lzt_error *err)
{
    const origin *o = &config->private_data->origin[index];
    const char *name = lzt__schema_key(index)->name;
    if (!entry->line) return fail_entry(config, entry, err, "%s is given twice", name);
    return fail_entry(config, entry, err, "%s is given twice: first on line %u, again here as %s", name, o->line,
                      entry->path);
}

/* One entry that is not a section. */
static lzt_status take_entry(lzt_config *config, const lzt_entry *entry, lzt_error *err)
{
    int index = lzt__schema_find(entry->path);
    if (index < 0) return unknown_key(config, entry, err);
    const lzt_key *key = lzt__schema_key(index);
    if (key->type == LZT_KEY_NONE) return take_none(config, entry, key, err);
    source from = entry->line ? SOURCE_FILE : SOURCE_COMMAND_LINE;
    origin *o = &config->private_data->origin[index];
    if (o->source == from) return given_twice(config, entry, index, err);
    set_default(config, index);
    o->source = from;
    o->line = entry->line;
    if (entry->kind == LZT_ENTRY_SCALAR && !entry->text) return take_null(config, entry, key, index, err);
    o->is_set = true;
    if (entry->kind == LZT_ENTRY_LIST) return take_list(config, entry, key, err);
    return take_text(config, entry, key, entry->text, err);
}

static lzt_status take_entries(lzt_config *config, const lzt_entries *entries, lzt_error *err)
{
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < entries->count && !status; i++) {
        const lzt_entry *entry = &entries->entry[i];
        bool is_blank = entry->kind == LZT_ENTRY_SCALAR && !entry->text;
        bool is_section = entry->kind == LZT_ENTRY_MAP || (is_blank && lzt__schema_find(entry->path) < 0);
        if (is_section && (lzt__schema_is_section(entry->path) || (entry->kind == LZT_ENTRY_MAP && !entry->is_empty)))
            continue; /* its members stand for themselves */
        status = take_entry(config, entry, err);
    }
    return status;
}

/* Of two keys that say the same, the one from the stronger source; both from one source is an error. */
static lzt_status choose(lzt_config *config, const char *a, const char *b, bool *use_b, lzt_error *err)
{
    int ia = key_index(a), ib = key_index(b);
    const origin *oa = &config->private_data->origin[ia], *ob = &config->private_data->origin[ib];
    *use_b = ob->source > oa->source;
    if (!ob->source || !oa->source || oa->source != ob->source) return LZT_OK;
    fail_key(config, ob->line > oa->line ? ib : ia, err, "%s and %s are both given", a, b);
    return lzt_hint(err, "keep one of them");
}

static lzt_status fold_warmup(lzt_config *config, lzt_error *err)
{
    bool use_ratio;
    int steps = key_index("warmup_steps"), ratio = key_index("warmup_ratio");
    origin *o = config->private_data->origin;
    if (o[ratio].source && !o[ratio].is_set) o[ratio] = (origin){0};
    lzt_status status = choose(config, "warmup_steps", "warmup_ratio", &use_ratio, err);
    if (status) return status;
    if (use_ratio) {
        config->warmup_steps = (lzt_steps){0, config->warmup_ratio};
        o[steps] = o[ratio];
    }
    config->warmup_ratio = 0;
    o[ratio] = (origin){0};
    return LZT_OK;
}

/* One number of a list, as YAML's items or separated by commas; *at moves behind it. */
static bool next_weight(const char **at, double *weight, const char **why)
{
    char word[64];
    const char *end = strchrnul(*at, ',');
    snprintf(word, sizeof word, "%.*s", (int)(end - *at), *at + strspn(*at, " "));
    *at = *end ? end + 1 : NULL;
    for (size_t n = strlen(word); n && word[n - 1] == ' '; n--) word[n - 1] = 0;
    if (!lzt__scalar_real(word, weight, why)) return false;
    *why = "is not above 0";
    return *weight > 0;
}

static lzt_status fold_weights(lzt_config *config, lzt_error *err)
{
    const lzt_text_list *list = &config->interleave_probs;
    int index = key_index("interleave_probs");
    if (list->count && config->mix_strategy == LZT_CONFIG_MIX_CONCAT) {
        fail_key(config, index, err, "interleave_probs has no effect with mix_strategy: concat");
        return lzt_hint(err, "set mix_strategy: interleave_under or interleave_over");
    }
    for (uint64_t i = 0; i < list->count; i++)
        for (const char *at = list->item[i], *why = ""; at;) {
            double *grown = realloc(config->mix_weight, (config->mix_weight_count + 1) * sizeof *grown);
            if (!grown) return no_memory(err);
            config->mix_weight = grown;
            if (!next_weight(&at, &grown[config->mix_weight_count++], &why))
                return fail_key(config, index, err, "interleave_probs: '%.100s' %s", list->item[i], why);
        }
    return LZT_OK;
}

/* train_on_prompt and mask_history are other words for loss_on. */
static lzt_status fold_loss_on(lzt_config *config, lzt_error *err)
{
    static const struct {
        const char *name;
        lzt_config_loss_on loss_on;
    } words[] = {{"train_on_prompt", LZT_CONFIG_LOSS_ALL}, {"mask_history", LZT_CONFIG_LOSS_LAST}};
    const char *decides = "loss_on"; /* the key that was written */
    bool given[2] = {config->train_on_prompt, config->mask_history};
    origin *o = config->private_data->origin;
    for (size_t i = 0; i < 2; i++) {
        bool use_word;
        if (!given[i]) continue;
        lzt_status status = choose(config, decides, words[i].name, &use_word, err);
        if (status) return status;
        if (!use_word) continue;
        config->loss_on = words[i].loss_on;
        decides = words[i].name;
        o[key_index("loss_on")] = o[key_index(words[i].name)];
    }
    config->train_on_prompt = config->mask_history = false;
    o[key_index("train_on_prompt")] = o[key_index("mask_history")] = (origin){.is_set = true};
    return LZT_OK;
}

static void fold_strategies(lzt_config *config)
{
    origin *o = config->private_data->origin;
    if (config->eval_strategy == LZT_CONFIG_STRATEGY_NO) {
        config->eval_dataset = NULL;
        config->val_size = 0;
        o[key_index("eval_dataset")] = o[key_index("eval_strategy")];
        o[key_index("eval_dataset")].is_set = false;
        if (o[key_index("val_size")].source) o[key_index("val_size")] = o[key_index("eval_strategy")];
    }
    if (config->eval_strategy == LZT_CONFIG_STRATEGY_EPOCH) {
        config->eval_steps = (lzt_steps){0};
        o[key_index("eval_steps")] = o[key_index("eval_strategy")];
    }
    if (config->save_strategy == LZT_CONFIG_STRATEGY_NO) {
        config->save_steps = (lzt_steps){0};
        o[key_index("save_steps")] = o[key_index("save_strategy")];
    }
}

static void inherit(lzt_config *config)
{
    static const char *const parts[] = {"memory.state_tier_weights", "memory.state_tier_gradients",
                                        "memory.state_tier_master", "memory.state_tier_moments"};
    origin *o = config->private_data->origin;
    if (!o[key_index("data_seed")].is_set) config->data_seed = config->seed;
    for (size_t i = 0; i < 4; i++) {
        int index = key_index(parts[i]);
        if (o[index].is_set) continue;
        *(lzt_config_tier *)((char *)config + lzt__schema_key(index)->offset) = config->memory.state_tier;
    }
}

static lzt_status check_pairs(const lzt_config *config, lzt_error *err)
{
    if (!config->query_field != !config->response_field) {
        int index = key_index(config->query_field ? "query_field" : "response_field");
        return fail_key(config, index, err, "query_field and response_field go together");
    }
    if (config->val_size > 0 && config->eval_dataset) {
        fail_key(config, key_index("val_size"), err, "val_size and eval_dataset are both given");
        return lzt_hint(err, "keep one: rows split off dataset, or rows of their own");
    }
    if (config->val_size >= 1 && config->val_size != floor(config->val_size))
        return fail_key(config, key_index("val_size"), err,
                        "val_size: %g is neither a share below 1 nor a number of rows", config->val_size);
    if (config->lr_min > 0 && config->lr_min_rate > 0)
        return fail_key(config, key_index("lr_scheduler_kwargs.min_lr_rate"), err,
                        "lr_scheduler_kwargs.min_lr and min_lr_rate are both given");
    return LZT_OK;
}

/* A load for planning: what a run would refuse is said, not refused. */
static lzt_status note_planned(lzt_config *config, const lzt_key *key, const char *text, lzt_error *err)
{
    char note[512];
    snprintf(note, sizeof note, "%s: %.200s is planned with; a run refuses it, it is not implemented yet", key->name,
             text);
    return lzt__strings_append(&config->private_data->strings, &config->note, note) ? LZT_OK : no_memory(err);
}

/* Values of features that do not exist yet are refused by name, so that no accepted option is without effect. */
static lzt_status check_not_yet(lzt_config *config, lzt_error *err)
{
    char text[VALUE_SIZE], usual[VALUE_SIZE];
    lzt_status status = LZT_OK;
    for (int i = 0; i < lzt__schema_count(); i++) {
        const lzt_key *key = lzt__schema_key(i);
        const origin *o = &config->private_data->origin[i];
        if (!key->not_yet || !o->source || !o->is_set) continue;
        if (!lzt__value_print(key, config, true, text, sizeof text)) snprintf(text, sizeof text, "(a long text)");
        lzt_config defaults = {0};
        lzt_strings strings = {0};
        char why[64];
        if (key->fallback) (void)lzt__value_read(key, key->fallback, &defaults, &strings, why, sizeof why);
        bool has_usual = key->fallback || key->type == LZT_KEY_LIST;
        lzt__value_print(key, &defaults, has_usual, usual, sizeof usual);
        lzt__strings_fini(&strings);
        if (!strcmp(text, usual) || !lzt__value_is_not_yet(key, text)) continue;
        if (key->plannable && config->private_data->to_plan) {
            status = note_planned(config, key, text, err);
            if (status) return status;
            continue;
        }
        fail_key(config, i, err, "%s: %.200s is not implemented yet", key->name, text);
        return has_usual ? lzt_hint(err, "leave it at %s", usual) : lzt_hint(err, "leave it out");
    }
    return LZT_OK;
}

static lzt_status init(lzt_config *config, const char *name, lzt_error *err)
{
    *config = (lzt_config){0};
    struct lzt_config_private *p = config->private_data = calloc(1, sizeof *p);
    if (!p) return no_memory(err);
    p->name = strdup(name);
    p->origin = calloc((size_t)lzt__schema_count(), sizeof *p->origin);
    if (!p->name || !p->origin) return no_memory(err);
    for (int i = 0; i < lzt__schema_count(); i++) set_default(config, i);
    return LZT_OK;
}

static lzt_status resolve(lzt_config *config, lzt_error *err)
{
    lzt_status status = fold_warmup(config, err);
    if (!status) status = fold_loss_on(config, err);
    if (!status) status = fold_weights(config, err);
    if (!status) status = check_pairs(config, err);
    if (!status) status = check_not_yet(config, err);
    if (status) return status;
    fold_strategies(config);
    inherit(config);
    return LZT_OK;
}

static lzt_status add_override(lzt_entries *entries, const lzt_config_override *override, lzt_error *err)
{
    int index = lzt__schema_find(override->key);
    const lzt_key *key = index < 0 ? NULL : lzt__schema_key(index);
    if (key && !override->value && key->type != LZT_KEY_BOOL && key->type != LZT_KEY_NONE) {
        lzt_fail(err, LZT_ERR_USAGE, "command line", "--%s needs a value", override->key);
        return lzt_hint(err, "write --%s VALUE", override->key);
    }
    return lzt__entries_add_override(entries, override, key && key->type == LZT_KEY_LIST, err);
}

static lzt_status load_text(const char *name, const char *text, size_t bytes, const lzt_config_override *override,
                            int override_count, bool to_plan, lzt_config *config, lzt_error *err)
{
    lzt_entries entries = {0};
    lzt_status status = init(config, name, err);
    if (config->private_data) config->private_data->to_plan = to_plan;
    if (!status) status = lzt__entries_parse(&entries, name, text, bytes, err);
    for (int i = 0; i < override_count && !status; i++) status = add_override(&entries, &override[i], err);
    if (!status) status = take_entries(config, &entries, err);
    if (!status) status = resolve(config, err);
    lzt__entries_fini(&entries);
    if (status) lzt_config_fini(config);
    return status;
}

lzt_status lzt_config_load_text(const char *name, const char *text, size_t bytes, const lzt_config_override *override,
                                int override_count, lzt_config *config, lzt_error *err)
{
    return load_text(name, text, bytes, override, override_count, false, config, err);
}

static lzt_status load(const char *path, const lzt_config_override *override, int override_count, bool to_plan,
                       lzt_config *config, lzt_error *err)
{
    char *text = NULL;
    uint64_t bytes = 0;
    *config = (lzt_config){0};
    if (path) {
        lzt_status status = lzt__os_read_file(lzt__os_posix(), path, FILE_BYTES_MAX, &text, &bytes, err);
        if (status == LZT_ERR_STORAGE) status = LZT_ERR_USAGE; /* a config that is not there is the user's to mend */
        if (status && err) err->status = status;
        if (status) return status;
    }
    const char *name = path ? path : "config";
    lzt_status status = load_text(name, text ? text : "", bytes, override, override_count, to_plan, config, err);
    free(text);
    return status;
}

lzt_status lzt_config_load(const char *path, const lzt_config_override *override, int override_count,
                           lzt_config *config, lzt_error *err)
{
    return load(path, override, override_count, false, config, err);
}

lzt_status lzt_config_load_to_plan(const char *path, const lzt_config_override *override, int override_count,
                                   lzt_config *config, lzt_error *err)
{
    return load(path, override, override_count, true, config, err);
}

void lzt_config_fini(lzt_config *config)
{
    struct lzt_config_private *p = config->private_data;
    if (p) {
        for (int i = 0; i < lzt__schema_count(); i++) {
            const lzt_key *key = lzt__schema_key(i);
            if (key->type == LZT_KEY_LIST) free(((lzt_text_list *)((char *)config + key->offset))->item);
        }
        free(config->mix_weight);
        free(config->note.item);
        lzt__strings_fini(&p->strings);
        free(p->origin);
        free(p->name);
        free(p);
    }
    *config = (lzt_config){0};
}

lzt_status lzt_config_require(const lzt_config *config, const char *key, lzt_error *err)
{
    const lzt_key *k = lzt__schema_key(key_index(key));
    assert(k->type == LZT_KEY_TEXT);
    if (*(const char *const *)((const char *)config + k->offset)) return LZT_OK;
    lzt_fail(err, LZT_ERR_USAGE, config->private_data->name, "%s is missing", key);
    return lzt_hint(err, "add `%s: ...` to the config, or --%s VALUE to the command line", key, key);
}

/* --- the resolved config --- */

static void write_key(const lzt_config *config, int index, bool is_indented, FILE *out)
{
    char text[VALUE_SIZE], from[512];
    const lzt_key *key = lzt__schema_key(index);
    const char *dot = strchr(key->name, '.');
    lzt__value_print(key, config, config->private_data->origin[index].is_set, text, sizeof text);
    lzt_config_origin(config, key->name, from, sizeof from);
    int column = fprintf(out, "%s%s: %s", is_indented ? "  " : "", dot ? dot + 1 : key->name, text);
    fprintf(out, "%*s# %s\n", column < 48 ? 48 - column : 1, "", from);
}

static void write_keys(const lzt_config *config, FILE *out)
{
    char section[64] = "";
    for (int i = 0; i < lzt__schema_count(); i++) {
        const lzt_key *key = lzt__schema_key(i);
        if (key->type == LZT_KEY_NONE) continue;
        int length = strchr(key->name, '.') ? (int)strcspn(key->name, ".") : 0;
        if (length && (strncmp(section, key->name, (size_t)length) || section[length])) {
            snprintf(section, sizeof section, "%.*s", length, key->name);
            fprintf(out, "%s:\n", section);
        }
        if (!length) section[0] = 0;
        write_key(config, i, length > 0, out);
    }
}

lzt_status lzt_config_print_resolved(const lzt_config *config, FILE *out, lzt_error *err)
{
    fprintf(out, "# The config of a run, as resolved by lazytrain %s: every key, its value, its origin.\n",
            lzt_version());
    write_keys(config, out);
    if (!fflush(out) && !ferror(out)) return LZT_OK;
    return lzt_fail(err, LZT_ERR_STORAGE, NULL, "cannot write the resolved config");
}

lzt_status lzt_config_write_resolved(const lzt_config *config, const char *path, lzt_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return no_memory(err);
    lzt_status status = lzt_config_print_resolved(config, out, err);
    if (fclose(out) && !status) status = no_memory(err);
    if (!status) status = lzt__os_write_file_atomic(lzt__os_posix(), path, text, bytes, err);
    free(text);
    return status;
}
