/* Chat templates: opening, rendering, and what of a rendering is trained. See lazytrain/template.h and chat.h. */
#include "data/template/chat.h"

#include "data/template/chat_builtin.h"
#include "data/loss_weight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define PROMPT_BYTES 4096

struct lzt_template {
    char where[512];
    lzt__jinja jinja;
    lzt__eval eval;
    lzt__json_doc config, doc;
    char *config_text;
    uint8_t *writer, *trained; /* [mark_capacity] of the last rendering */
    float *weight;             /* [weight_capacity] */
    uint64_t mark_capacity, weight_capacity;
    char prompt[PROMPT_BYTES]; /* what add_generation_prompt adds */
    uint32_t prompt_size;
    uint64_t fingerprint[2]; /* of the text */
    bool asks_time;
    int64_t now;
    lzt__content content;
};

/* ---- files ---- */

static lzt_status read_text(const char *path, char **text, uint64_t *size, lzt_error *err)
{
    *text = NULL;
    *size = 0;
    FILE *f = fopen(path, "rb");
    if (!f) return lzt_fail_os(err, LZT_ERR_DATA, errno, path, "cannot open the file");
    for (uint64_t capacity = 1 << 16;; capacity *= 2) {
        char *grown = realloc(*text, capacity + 1);
        if (!grown) break;
        *text = grown;
        *size += fread(grown + *size, 1, capacity - *size, f);
        if (*size == capacity) continue;
        grown[*size] = 0;
        fclose(f);
        return LZT_OK;
    }
    fclose(f);
    return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the file");
}

/* model/name, or name beside model where that is a file. */
static bool beside(const char *model, const char *name, char *path, size_t size)
{
    struct stat st;
    const char *slash = model ? strrchr(model, '/') : NULL;
    if (!model) return false;
    if (!stat(model, &st) && S_ISDIR(st.st_mode))
        snprintf(path, size, "%s/%s", model, name);
    else
        snprintf(path, size, "%.*s/%s", slash ? (int)(slash - model) : 1, slash ? model : ".", name);
    return !access(path, R_OK);
}

static lzt_status read_config(lzt_template *t, const char *model, char *path, size_t path_size, lzt_error *err)
{
    uint64_t size;
    if (!beside(model, "tokenizer_config.json", path, path_size)) return LZT_OK;
    lzt_status s = read_text(path, &t->config_text, &size, err);
    return s ? s : lzt__json_parse(&t->config, t->config_text, size, path, err);
}

/* chat_template: a text, or a list of {name, template} of which "default" is taken. */
static const lzt__json *configured_template(const lzt_template *t)
{
    const lzt__json *m = t->config.node_count ? lzt__json_get(t->config.node, "chat_template") : NULL;
    if (!m || m->type != LZT__JSON_ARRAY) return m && m->type == LZT__JSON_STRING ? m : NULL;
    const lzt__json *c = lzt__json_child(m);
    for (uint32_t i = 0; i < m->size; i++, c = lzt__json_next(c)) {
        const lzt__json *source = lzt__json_get(c, "template");
        if (lzt__json_is_string(lzt__json_get(c, "name"), "default") && source && source->type == LZT__JSON_STRING)
            return source;
    }
    return NULL;
}

static lzt_status parse_text(lzt_template *t, const char *text, uint64_t size, lzt_error *err)
{
    XXH128_hash_t hash = XXH3_128bits(text, size);
    t->fingerprint[0] = hash.low64;
    t->fingerprint[1] = hash.high64;
    t->asks_time = memmem(text, size, "strftime_now", 12) != NULL;
    return lzt__jinja_parse(text, size, t->where, &t->jinja, err);
}

static lzt_status parse_file(lzt_template *t, const char *path, lzt_error *err)
{
    char *text;
    uint64_t size;
    snprintf(t->where, sizeof t->where, "%s", path);
    lzt_status s = read_text(path, &text, &size, err);
    if (!s) s = parse_text(t, text, size, err);
    free(text);
    return s;
}

static lzt_status parse_own(lzt_template *t, const char *model, const char *config_path, lzt_error *err)
{
    char path[4096];
    if (beside(model, "chat_template.jinja", path, sizeof path)) return parse_file(t, path, err);
    const lzt__json *own = configured_template(t);
    if (own) {
        snprintf(t->where, sizeof t->where, "%.490s chat_template", config_path);
        return parse_text(t, own->text, own->size, err);
    }
    lzt_fail(err, LZT_ERR_USAGE, model ? model : "template", "there is no chat template");
    return lzt_hint(err,
                    "name one: template: qwen3 (or alpaca, chatml, qwen2.5, llama3, raw), or the path of a Jinja file");
}

static lzt_status parse_named(lzt_template *t, const char *name, lzt_error *err)
{
    const char *source = lzt__chat_builtin_source(name);
    if (source) {
        snprintf(t->where, sizeof t->where, "template %s", name);
        return parse_text(t, source, strlen(source), err);
    }
    if (!access(name, R_OK)) return parse_file(t, name, err);
    lzt_fail(err, LZT_ERR_USAGE, "template", "there is no template %s", name);
    return lzt_hint(err, "built in are alpaca, chatml, qwen2.5, qwen3, llama3, raw; or give the path of a Jinja file");
}

/* ---- rendering ---- */

lzt__arena *lzt__chat_begin(lzt_template *t)
{
    lzt__eval_begin(&t->eval, &t->jinja, t->where);
    t->eval.now = t->now;
    return &t->eval.arena;
}

static lzt_status no_memory(const lzt_template *t, lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, t->where, "no memory for a conversation");
}

/* Without the members that are null, and with reasoning under all its names, as the reference prepares messages. */
static lzt_status prepare_message(lzt_template *t, lzt__value *message, uint32_t index, lzt_error *err)
{
    static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};
    lzt__arena *arena = &t->eval.arena;
    lzt__value made, key;
    const lzt__value *reasoning = NULL;
    if (message->kind != LZT__KIND_DICT) return lzt_fail(err, LZT_ERR_DATA, NULL, "message %u is not an object", index);
    for (int i = 0; i < 3 && !reasoning; i++) {
        reasoning = lzt__dict_find(message->dict, reasoning_names[i]);
        if (reasoning && reasoning->kind == LZT__KIND_NONE) reasoning = NULL;
    }
    if (!lzt__value_dict(arena, message->dict->count + 2, &made)) return no_memory(t, err);
    bool ok = !reasoning ||
              (lzt__value_string(arena, "thinking", 8, 0, &key) && lzt__dict_set(arena, made.dict, key, *reasoning));
    for (uint32_t i = 0; ok && i < message->dict->count; i++)
        if (message->dict->value[i].kind != LZT__KIND_NONE)
            ok = lzt__dict_set(arena, made.dict, message->dict->key[i], message->dict->value[i]);
    if (ok && reasoning)
        ok = lzt__value_string(arena, "reasoning_content", 17, 0, &key) &&
             lzt__dict_set(arena, made.dict, key, *reasoning);
    if (!ok) return no_memory(t, err);
    made.dict->message = (int32_t)index;
    *message = made;
    return LZT_OK;
}

/* bos_token and its kin: texts of the template's side. */
static lzt_status set_special_tokens(lzt_template *t, lzt_error *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    if (!t->config.node_count) return LZT_OK;
    lzt_status s = LZT_OK;
    for (size_t i = 0; !s && i < sizeof names / sizeof names[0]; i++) {
        const lzt__json *m = lzt__json_get(t->config.node, names[i]);
        lzt__value v;
        if (m && m->type == LZT__JSON_OBJECT) m = lzt__json_get(m, "content");
        if (!m || m->type != LZT__JSON_STRING) continue;
        if (!lzt__value_string(&t->eval.arena, m->text, m->size, LZT__MARK_TEMPLATE, &v)) return no_memory(t, err);
        s = lzt__eval_set(&t->eval, names[i], v, err);
    }
    return s;
}

static lzt_status split_marks(lzt_template *t, lzt_rendered *rendered, lzt_error *err)
{
    const lzt__out *out = &t->eval.out;
    if (out->size + 1 > t->mark_capacity) {
        uint64_t capacity = out->size + out->size / 2 + 256;
        uint8_t *writer = realloc(t->writer, capacity);
        if (writer) t->writer = writer;
        uint8_t *trained = writer ? realloc(t->trained, capacity) : NULL;
        if (!trained) return no_memory(t, err);
        t->trained = trained;
        t->mark_capacity = capacity;
    }
    for (uint64_t i = 0; i < out->size; i++) {
        t->writer[i] = out->mark[i] & LZT__MARK_TEMPLATE;
        t->trained[i] = out->mark[i] & LZT__MARK_GENERATED;
    }
    *rendered = (lzt_rendered){out->bytes ? out->bytes : "", out->size, t->writer, t->trained, NULL};
    return LZT_OK;
}

lzt_status lzt__chat_render(lzt_template *t, const lzt__value *messages, const lzt__value *tools, bool prompt,
                            lzt_rendered *rendered, lzt_error *err)
{
    lzt__value list, none = {LZT__KIND_NONE, {0}};
    *rendered = (lzt_rendered){0};
    if (!lzt__value_list(&t->eval.arena, messages->list->count, LZT__KIND_LIST, &list)) return no_memory(t, err);
    lzt_status s = LZT_OK;
    for (uint32_t i = 0; !s && i < messages->list->count; i++) {
        list.list->item[i] = messages->list->item[i];
        s = prepare_message(t, &list.list->item[i], i, err);
    }
    if (!s) s = set_special_tokens(t, err);
    if (!s) s = lzt__eval_set(&t->eval, "messages", list, err);
    if (!s) s = lzt__eval_set(&t->eval, "tools", tools ? *tools : none, err);
    if (!s) s = lzt__eval_set(&t->eval, "documents", none, err);
    if (!s) s = lzt__eval_set(&t->eval, "add_generation_prompt", (lzt__value){LZT__KIND_BOOL, {.truth = prompt}}, err);
    if (!s) s = lzt__eval_run(&t->eval, err);
    return s ? s : split_marks(t, rendered, err);
}

/* ---- what a template leaves out ---- */

static uint64_t turn_end(const lzt__eval *ev, uint32_t turn)
{
    return turn + 1 < ev->turn_count ? ev->turn[turn + 1].begin : ev->out.size;
}

/* The name of a tool, or of a call of one: {"function": {"name": ...}} or {"name": ...}; NULL: none that every template
 * would spell as it stands. */
static const lzt__string *name_of(const lzt__value *tool)
{
    const lzt__value *in = tool->kind == LZT__KIND_DICT ? lzt__dict_find(tool->dict, "function") : NULL;
    if (!in || in->kind != LZT__KIND_DICT) in = tool;
    const lzt__value *name = in->kind == LZT__KIND_DICT ? lzt__dict_find(in->dict, "name") : NULL;
    if (!name || name->kind != LZT__KIND_STRING || !name->string->size) return NULL;
    for (uint32_t i = 0; i < name->string->size; i++) {
        unsigned char c = (unsigned char)name->string->bytes[i];
        bool plain = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || strchr("_-.", c);
        if (!plain) return NULL;
    }
    return name->string;
}

/* Whether the message's own turns have the name in them; where nothing is known to be its own, the whole text. */
static bool is_written(const lzt_template *t, int64_t message, const lzt__string *name)
{
    const lzt__eval *ev = &t->eval;
    bool own = false;
    for (uint32_t k = 0; message >= 0 && k < ev->turn_count; k++) {
        if (ev->turn[k].message != message) continue;
        uint64_t begin = ev->turn[k].begin, end = turn_end(ev, k);
        own = true;
        if (memmem(ev->out.bytes + begin, end - begin, name->bytes, name->size)) return true;
    }
    return !own && ev->out.size && memmem(ev->out.bytes, ev->out.size, name->bytes, name->size);
}

lzt_status lzt__chat_check_calls(const lzt_template *t, const lzt__value *messages, const lzt__value *tools,
                                 lzt_error *err)
{
    for (uint32_t i = 0; i <= messages->list->count; i++) {
        bool of_message = i < messages->list->count;
        const lzt__value *m = of_message ? &messages->list->item[i] : NULL,
                         *list = of_message ? lzt__dict_find(m->dict, "tool_calls") : tools;
        for (uint32_t k = 0; list && list->kind == LZT__KIND_LIST && k < list->list->count; k++) {
            const lzt__string *name = name_of(&list->list->item[k]);
            if (!name || is_written(t, of_message ? (int64_t)i : -1, name)) continue;
            lzt_fail(err, LZT_ERR_DATA, NULL, "the template does not write the %s \"%.*s\"",
                     of_message ? "tool call" : "tool", (int)(name->size > 60 ? 60 : name->size), name->bytes);
            return lzt_hint(err,
                            "choose a template that knows tools, leave such rows out with on_bad_row: skip, or take "
                            "tools out of them");
        }
    }
    return LZT_OK;
}

/* ---- what is trained ---- */

/* Where the answer begins in a turn [begin, end): behind the longest prefix of the generation prompt that the template
 * wrote ahead of any data, the earliest of equals; or behind a whole prompt that opens the turn, made out of the role.
 */
static uint64_t answer_begin(const lzt_template *t, uint64_t begin, uint64_t end)
{
    const char *text = t->eval.out.bytes;
    uint64_t best = 0, at = begin;
    for (uint64_t p = begin; t->prompt_size && p < end && best < t->prompt_size; p++) {
        uint64_t n = 0;
        bool written = t->eval.out.mark[p] & LZT__MARK_TEMPLATE;
        while (n < t->prompt_size && p + n < end && text[p + n] == t->prompt[n]) n++;
        if (n > best && (written || (p == begin && n == t->prompt_size))) {
            best = n;
            at = p + n;
        }
        if (!written) break;
    }
    return at;
}

/* Marks the bytes of a turn from the answer's begin through whatever the template closes it with, but for the white
 * space that it writes behind that. */
static void mark_turn(lzt_template *t, uint64_t begin, uint64_t end)
{
    const lzt__out *out = &t->eval.out;
    while (end > begin && (out->bytes[end - 1] == '\n' || out->bytes[end - 1] == ' ') &&
           (out->mark[end - 1] & LZT__MARK_TEMPLATE))
        end--;
    if (end > begin) memset(t->trained + begin, 1, end - begin);
}

/* Narrows the trained bytes to those of wanted messages; without generation blocks, they are the wanted turns' answers.
 * false: nothing shows which output is whose. */
static bool choose_trained(lzt_template *t, const float *wanted, uint32_t message_count)
{
    const lzt__eval *ev = &t->eval;
    bool any_turn = false;
    for (uint32_t k = 0; k < ev->turn_count; k++) {
        int32_t m = ev->turn[k].message;
        uint64_t begin = ev->turn[k].begin, end = turn_end(ev, k);
        bool known = m >= 0 && (uint32_t)m < message_count;
        any_turn = any_turn || m >= 0;
        if (t->jinja.has_generation && known && wanted[m] == 0) memset(t->trained + begin, 0, end - begin);
        if (!t->jinja.has_generation && known && wanted[m] > 0) mark_turn(t, answer_begin(t, begin, end), end);
    }
    return any_turn || t->jinja.has_generation || !message_count;
}

/* The message in whose turn the byte at lies, -1: nobody's. *turn: where to look first, kept from call to call. */
static int64_t message_at(const lzt_template *t, uint64_t at, uint32_t message_count, uint32_t *turn)
{
    const lzt__eval *ev = &t->eval;
    if (*turn < ev->turn_count && ev->turn[*turn].begin > at) *turn = 0;
    while (*turn < ev->turn_count && turn_end(ev, *turn) <= at) ++*turn;
    if (*turn == ev->turn_count || ev->turn[*turn].begin > at) return -1;
    int32_t m = ev->turn[*turn].message;
    return m >= 0 && (uint32_t)m < message_count ? m : -1;
}

/* Weights are told apart by turns: some message has one that is neither 0 nor 1, or not all bear loss alike. */
static bool turns_matter(const float *wanted, uint32_t message_count, bool all)
{
    for (uint32_t i = 0; i < message_count; i++)
        if (wanted[i] != 1 && (all || wanted[i] != 0)) return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool any_text(const char *bytes, uint64_t size)
{
    uint64_t i = 0;
    while (i < size && is_blank(bytes[i])) i++;
    return i < size;
}

/* Whether the message has text, and the template wrote none in a turn of the message's own. */
static bool is_elsewhere(const lzt_template *t, const lzt__value *message, uint32_t index)
{
    const lzt__eval *ev = &t->eval;
    const lzt__value *content = message->kind == LZT__KIND_DICT ? lzt__dict_find(message->dict, "content") : NULL;
    if (!content || content->kind != LZT__KIND_STRING || !any_text(content->string->bytes, content->string->size))
        return false;
    for (uint32_t k = 0; k < ev->turn_count; k++)
        if (ev->turn[k].message == (int32_t)index &&
            any_text(ev->out.bytes + ev->turn[k].begin, turn_end(ev, k) - ev->turn[k].begin))
            return false;
    return true;
}

/* A system message, most often: written ahead of the loop over messages, or into the user's turn. Its weight would go
 * unseen. Where a template marks what is trained, that is the assistant's alone to say. */
static lzt_status check_places(const lzt_template *t, const lzt__value *messages, const float *wanted, bool all,
                               lzt_error *err)
{
    for (uint32_t i = 0; i < messages->list->count; i++) {
        const lzt__value *m = &messages->list->item[i];
        bool assistant = lzt__chat_is_assistant(m), marked = t->jinja.has_generation;
        bool told = all ? wanted[i] != 1 : assistant ? wanted[i] != 0 && wanted[i] != 1 : wanted[i] > 0 && !marked;
        if (!told || !is_elsewhere(t, m, i)) continue;
        lzt_fail(err, LZT_ERR_DATA, NULL,
                 "the template does not write message %u in a turn of its own, where its weight of %g would count",
                 i + 1, (double)wanted[i]);
        return lzt_hint(err, "leave the weight out, or choose a template that writes the message inside its loop over "
                             "messages, as the built-in chatml does");
    }
    return LZT_OK;
}

/* Whose output is what: any of a message's, and any trained of nobody's. */
static void whose_output(const lzt_template *t, uint32_t message_count, bool *of_message, bool *of_nobody)
{
    const lzt__eval *ev = &t->eval;
    uint64_t begin = 0;
    *of_message = *of_nobody = false;
    for (uint32_t k = 0; k <= ev->turn_count; k++) { /* what stands before turn k */
        int32_t m = k ? ev->turn[k - 1].message : -1;
        uint64_t end = k < ev->turn_count ? ev->turn[k].begin : ev->out.size;
        bool known = m >= 0 && (uint32_t)m < message_count;
        *of_message = *of_message || (known && begin < end);
        for (uint64_t i = begin; !known && !*of_nobody && i < end; i++) *of_nobody = t->trained[i] > 0;
        begin = end;
    }
}

/* Leaves in t->trained the bytes that are trained, and refuses what cannot be told of them: whose they are, or where a
 * message's weight is to count. all: of everything. Training and `data render` both see a conversation through this. */
static lzt_status judge(lzt_template *t, const lzt__value *messages, const float *wanted, bool all, lzt_error *err)
{
    uint32_t message_count = messages->list->count;
    bool of_message, of_nobody, any_wanted = all;
    for (uint32_t i = 0; i < message_count; i++) any_wanted = any_wanted || wanted[i] > 0;
    bool shown = choose_trained(t, wanted, message_count) || !any_wanted;
    whose_output(t, message_count, &of_message, &of_nobody);
    bool lost = all ? !of_message : of_nobody; /* a weight, and nothing shows to what it belongs */
    if (shown && !(lost && turns_matter(wanted, message_count, all)))
        return check_places(t, messages, wanted, all, err);
    lzt_fail(err, LZT_ERR_DATA, t->where, "the template does not show which of its output is %s",
             shown ? "whose, and messages have weights" : "the assistant's");
    return lzt_hint(err, shown ? "write messages out inside the loop over them, or choose a built-in template"
                               : "mark it with {%% generation %%}, or choose a built-in template");
}

lzt_status lzt__chat_trained(lzt_template *t, const lzt_encoding *tokens, const lzt__value *messages,
                             const float *wanted, bool all, float *trained, lzt_error *err)
{
    uint32_t turn = 0, message_count = messages->list->count;
    lzt_status s = judge(t, messages, wanted, all, err);
    for (uint64_t i = 0; !s && i < tokens->count; i++) {
        uint64_t at = tokens->begin[i];
        int64_t m = message_at(t, at, message_count, &turn);
        bool is_trained = all || (at < t->eval.out.size && t->trained[at]);
        trained[i] = !is_trained ? 0 : m < 0 ? 1 : wanted[m];
    }
    return s;
}

static lzt_status set_others(lzt_template *t, const lzt__dict *d, lzt_error *err)
{
    lzt_status s = LZT_OK;
    for (uint32_t i = 0; !s && i < d->count; i++) {
        char name[128];
        const lzt__string *key = d->key[i].string;
        snprintf(name, sizeof name, "%.*s", (int)key->size, key->bytes);
        if (strcmp(name, "messages") && strcmp(name, "tools")) s = lzt__eval_set(&t->eval, name, d->value[i], err);
    }
    return s;
}

bool lzt__chat_is_assistant(const lzt__value *message)
{
    const lzt__value *role = message->kind == LZT__KIND_DICT ? lzt__dict_find(message->dict, "role") : NULL;
    const lzt__string *r = role && role->kind == LZT__KIND_STRING ? role->string : NULL;
    return r &&
           ((r->size == 9 && !memcmp(r->bytes, "assistant", 9)) || (r->size == 5 && !memcmp(r->bytes, "model", 5)));
}

/* The weights of messages, written as list; *wanted lies in the arena. by: the weight of the whole. */
static lzt_status read_weights(lzt_template *t, const lzt__value *messages, const lzt__json *list, float by,
                               float **wanted, lzt_error *err)
{
    uint32_t n = messages->list->count;
    const lzt__json *node = lzt__json_child(list);
    *wanted = lzt__arena_take(&t->eval.arena, ((uint64_t)n + 1) * sizeof **wanted);
    if (!*wanted) return no_memory(t, err);
    for (uint32_t i = 0; i < n; i++, node = lzt__json_next(node)) {
        (*wanted)[i] = lzt__chat_is_assistant(&messages->list->item[i]) ? 1 : 0;
        lzt_status s = lzt__weight_of_message(node, i + 1, "conversation", &(*wanted)[i], err);
        if (s) return s;
    }
    return lzt__weights_allow(by, *wanted, n, "message", "conversation", err);
}

/* What is trained of the last rendering, and how much it counts. */
static lzt_status weigh_bytes(lzt_template *t, const lzt__value *messages, const float *wanted, float by,
                              lzt_rendered *rendered, lzt_error *err)
{
    uint32_t n = messages->list->count, turn = 0;
    if (rendered->size > t->weight_capacity) {
        float *grown = realloc(t->weight, t->mark_capacity * sizeof *grown);
        if (!grown) return no_memory(t, err);
        t->weight = grown;
        t->weight_capacity = t->mark_capacity;
    }
    lzt_status s = judge(t, messages, wanted, false, err);
    for (uint64_t i = 0; !s && i < rendered->size; i++) {
        int64_t m = t->trained[i] ? message_at(t, i, n, &turn) : -1;
        float weight = !t->trained[i] ? 0 : m < 0 ? 1 : wanted[m];
        t->weight[i] = (float)((double)by * (double)weight);
        if (by == 0) t->trained[i] = 0;
    }
    rendered->weight = t->weight;
    return s;
}

lzt_status lzt_template_render(lzt_template *t, const char *conversation, uint64_t size, uint32_t flags,
                               lzt_rendered *rendered, lzt_error *err)
{
    lzt__value v;
    float by = 1, *wanted;
    *rendered = (lzt_rendered){0};
    lzt__arena *arena = lzt__chat_begin(t);
    lzt_status s = lzt__json_parse(&t->doc, conversation, size, "conversation", err);
    if (!s) s = lzt__value_from_json(arena, t->doc.node, &v, err);
    if (s) return s;
    const lzt__value *messages = &v, *tools = NULL;
    const lzt__json *list = t->doc.node;
    if (v.kind == LZT__KIND_DICT) {
        s = lzt__weight_of_row(list, NULL, NULL, "conversation", &by, err);
        messages = lzt__dict_find(v.dict, "messages");
        tools = lzt__dict_find(v.dict, "tools");
        list = lzt__json_get(list, "messages");
        if (!s && !messages) s = lzt_fail(err, LZT_ERR_DATA, "conversation", "there are no messages");
        if (!s) s = set_others(t, v.dict, err);
    }
    if (!s && messages->kind != LZT__KIND_LIST)
        s = lzt_fail(err, LZT_ERR_DATA, "conversation", "messages is not a list");
    if (!s) s = read_weights(t, messages, list, by, &wanted, err);
    if (!s) s = lzt__chat_render(t, messages, tools, flags & LZT_RENDER_PROMPT, rendered, err);
    return s ? s : weigh_bytes(t, messages, wanted, by, rendered, err);
}

/* ---- opening ---- */

/* Where the output behind the last message begins. */
static uint64_t tail_begin(const lzt__eval *ev)
{
    const lzt__turn *last = ev->turn_count ? &ev->turn[ev->turn_count - 1] : NULL;
    return last && last->message < 0 && ev->turn_count > 1 ? last->begin : ev->out.size;
}

/* What add_generation_prompt adds behind a question; some templates write it in the place of an EOS. A template that
 * refuses the probe adds nothing. */
static void find_prompt(lzt_template *t)
{
    static const char probe[] = "[{\"role\":\"user\",\"content\":\"x\"}]";
    lzt_rendered r;
    lzt_error err;
    if (lzt_template_render(t, probe, sizeof probe - 1, 0, &r, &err)) return;
    char *without = malloc(r.size + 1);
    if (!without) return;
    uint64_t size = r.size, tail = tail_begin(&t->eval);
    memcpy(without, r.text, size);
    bool ok = !lzt_template_render(t, probe, sizeof probe - 1, LZT_RENDER_PROMPT, &r, &err);
    uint64_t begin = ok && r.size > size && !memcmp(without, r.text, size) ? size : tail;
    ok = ok && r.size > begin && !memcmp(without, r.text, begin) && r.size - begin <= PROMPT_BYTES;
    if (ok && (begin == size || begin == tail_begin(&t->eval))) {
        t->prompt_size = (uint32_t)(r.size - begin);
        memcpy(t->prompt, r.text + begin, t->prompt_size);
    }
    free(without);
}

/* Whether the text of a message comes through, and nothing of the list around it. */
static bool writes(lzt_template *t, const char *conversation)
{
    lzt_rendered r;
    lzt_error err;
    if (lzt_template_render(t, conversation, strlen(conversation), 0, &r, &err)) return false;
    return r.size && memmem(r.text, r.size, "lztprobe", 8) && !memmem(r.text, r.size, "'type'", 6) &&
           !memmem(r.text, r.size, "\"type\"", 6);
}

static void find_content(lzt_template *t)
{
    bool text = writes(t, "[{\"role\":\"user\",\"content\":\"lztprobe\"}]");
    bool parts = writes(t, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"lztprobe\"}]}]");
    t->content = !parts ? LZT__CONTENT_TEXT : text ? LZT__CONTENT_EITHER : LZT__CONTENT_PARTS;
}

lzt__content lzt__chat_content(const lzt_template *t)
{
    return t->content;
}

lzt_status lzt_template_open(const char *name, const char *model, lzt_template **chat, lzt_error *err)
{
    char config_path[4096] = "";
    *chat = NULL;
    lzt_template *t = calloc(1, sizeof *t);
    if (!t) return lzt_fail(err, LZT_ERR_NO_MEMORY, "template", "no memory for a template");
    t->now = (int64_t)time(NULL);
    lzt_status s = read_config(t, model, config_path, sizeof config_path, err);
    if (!s)
        s = !name || !*name || !strcmp(name, "auto") ? parse_own(t, model, config_path, err)
                                                     : parse_named(t, name, err);
    if (s) {
        lzt_template_close(t);
        return s;
    }
    find_prompt(t);
    find_content(t);
    *chat = t;
    return LZT_OK;
}

void lzt_template_close(lzt_template *t)
{
    if (!t) return;
    lzt__jinja_free(&t->jinja);
    lzt__eval_free(&t->eval);
    lzt__json_free(&t->config);
    lzt__json_free(&t->doc);
    free(t->config_text);
    free(t->writer);
    free(t->trained);
    free(t->weight);
    free(t);
}

void lzt_template_set_time(lzt_template *t, int64_t seconds)
{
    t->now = seconds;
}

bool lzt_template_asks_time(const lzt_template *t, int64_t *seconds)
{
    *seconds = t->now;
    return t->asks_time;
}

bool lzt__chat_has_generation(const lzt_template *t)
{
    return t->jinja.has_generation;
}

const char *lzt__chat_where(const lzt_template *t)
{
    return t->where;
}

void lzt__chat_fingerprint(const lzt_template *t, uint64_t fingerprint[2])
{
    char today[16] = "";
    time_t now = (time_t)t->now;
    struct tm tm;
    if (t->asks_time && localtime_r(&now, &tm)) strftime(today, sizeof today, "%Y-%m-%d", &tm);
    const char *config = t->config_text ? t->config_text : "";
    XXH128_hash_t hash = XXH3_128bits_withSeed(config, strlen(config), t->fingerprint[0]);
    fingerprint[0] = XXH3_64bits_withSeed(today, strlen(today), hash.low64);
    fingerprint[1] = hash.high64 ^ t->fingerprint[1];
}
