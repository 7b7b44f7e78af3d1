/* Rows of text: which format a row is in, the conversation it means, and its tokens with their labels and weights.
 *
 * All formats but plain text become a conversation (a list of messages) in the template's arena, which is rendered,
 * tokenised once as a whole, and labelled by where its tokens begin. Control tokens match only bytes that the template
 * wrote.
 */
#include "data/template/chat.h"
#include "data/dataset/dataset.h"
#include "data/tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lzt__rowmaker_fini(lzt__rowmaker *maker)
{
    lzt_encoder_destroy(maker->encoder);
    lzt__json_free(&maker->doc);
    free(maker->answer);
    free(maker->wanted);
    free(maker->trained);
    *maker = (lzt__rowmaker){0};
}

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a row");
}

static bool reserve(float **list, uint64_t *capacity, uint64_t size)
{
    if (size <= *capacity) return true;
    float *grown = realloc(*list, (2 * size + 64) * sizeof *grown);
    if (!grown) return false;
    *list = grown;
    *capacity = 2 * size + 64;
    return true;
}

/* ---- tokens ---- */

static void push(lzt__rowbuf *buf, int32_t id, float weight)
{
    buf->ids[buf->count] = id;
    buf->labels[buf->count] = weight > 0 ? id : LZT_LABEL_NONE;
    buf->weights[buf->count++] = weight;
}

/* Copies an encoding behind what the buffer holds; trained[i] is the weight of a token's loss, NULL: all of 1. */
static lzt_status append(lzt__rowbuf *buf, const lzt_encoding *e, const float *trained, int32_t closing, lzt_error *err)
{
    lzt_status s = lzt__rowbuf_reserve(buf, e->count + 1, err);
    if (s) return s;
    for (uint64_t i = 0; i < e->count; i++) push(buf, e->ids[i], trained ? trained[i] : 1);
    if (closing >= 0 && (!buf->count || buf->ids[buf->count - 1] != closing)) push(buf, closing, 1);
    return LZT_OK;
}

static void note_bos(const lzt__rowmaker *m, lzt__rowbuf *buf)
{
    int32_t bos = lzt_tokenizer_bos(m->tokenizer);
    buf->double_bos = bos >= 0 && buf->count > 1 && buf->ids[0] == bos && buf->ids[1] == bos;
}

/* Plain text: with the tokens that the tokenizer puts around a text, and an EOS. */
static lzt_status plain_text(lzt__rowmaker *m, const lzt__json *text, lzt__rowbuf *buf, lzt_error *err)
{
    lzt_encoding e;
    int32_t eos = lzt__tokenizer_closes_text(m->tokenizer) ? lzt_tokenizer_eos(m->tokenizer) : -1;
    lzt_status s =
        lzt_encoder_encode(m->encoder, text->text, text->size, NULL, LZT_ENCODE_ADDED | LZT_ENCODE_SPECIAL, &e, err);
    return s ? s : append(buf, &e, NULL, eos, err);
}

/* ---- questions ---- */

static lzt_status keep_answer(lzt__rowmaker *m, const char *text, uint64_t size, lzt_error *err)
{
    char *copy = realloc(m->answer, size + 1);
    if (!copy) return no_memory(err);
    memcpy(copy, text, size);
    copy[size] = 0;
    m->answer = copy;
    m->answer_size = size;
    return LZT_OK;
}

/* An EOS that the tokenizer puts behind a text would end the answer before it begins. */
static void reopen(const lzt__rowmaker *m, lzt__rowbuf *buf)
{
    int32_t eos = lzt_tokenizer_eos(m->tokenizer);
    if (eos >= 0 && buf->count > 1 && buf->ids[buf->count - 1] == eos) buf->count--;
}

static lzt_status ask_plain_pair(lzt__rowmaker *m, const lzt__json *query, const lzt__json *response, lzt__rowbuf *buf,
                                 lzt_error *err)
{
    lzt_encoding e;
    lzt_status s = keep_answer(m, response->text, response->size, err);
    if (!s) s = lzt_encoder_encode(m->encoder, query->text, query->size, NULL, LZT_ENCODE_SPECIAL, &e, err);
    if (!s) s = append(buf, &e, NULL, -1, err);
    if (!s) reopen(m, buf);
    return s;
}

lzt_status lzt__row_ask_pretokenised(lzt__rowmaker *m, const char *where, lzt__rowbuf *buf, lzt_error *err)
{
    char *text;
    uint64_t size, end = buf->count, begin;
    if (!m->tokenizer) {
        lzt_fail(err, LZT_ERR_DATA, where, "the answer of a row of ids is read with a tokenizer, and there is none");
        return lzt_hint(err, "name one: tokenizer: DIR");
    }
    while (end && buf->labels[end - 1] == LZT_LABEL_NONE) end--;
    for (begin = end; begin && buf->labels[begin - 1] != LZT_LABEL_NONE;) begin--;
    if (!begin || begin == end)
        return lzt_fail(err, LZT_ERR_DATA, where, "the row asks nothing: no token stands before its answer");
    lzt_status s = lzt_tokenizer_decode(m->tokenizer, buf->ids + begin, end - begin, true, &text, &size, err);
    if (s) return s;
    buf->count = begin;
    s = keep_answer(m, text, size, err);
    free(text);
    return s;
}

/* A pair without a template: query and response as they stand, the response and an EOS trained. */
static lzt_status plain_pair(lzt__rowmaker *m, const lzt__json *query, const lzt__json *response, lzt__rowbuf *buf,
                             lzt_error *err)
{
    lzt_encoding e;
    uint64_t size = (uint64_t)query->size + response->size;
    char *text = malloc(size + 1);
    if (!text) return no_memory(err);
    memcpy(text, query->text, query->size);
    memcpy(text + query->size, response->text, response->size);
    lzt_status s = lzt_encoder_encode(m->encoder, text, size, NULL, LZT_ENCODE_SPECIAL, &e, err);
    if (!s && !reserve(&m->trained, &m->trained_capacity, e.count)) s = no_memory(err);
    for (uint64_t i = 0; !s && i < e.count; i++)
        m->trained[i] = m->loss_on == LZT_LOSS_ALL || e.begin[i] >= query->size ? 1 : 0;
    if (!s) s = append(buf, &e, m->trained, lzt_tokenizer_eos(m->tokenizer), err);
    if (!s) buf->control_text = lzt__tokenizer_spells_control(m->tokenizer, text, size, NULL);
    free(text);
    return s;
}

/* ---- conversations ---- */

/* A conversation under construction in the template's arena. */
typedef struct conversation {
    lzt__rowmaker *m;
    lzt__arena *arena;
    lzt__value messages, tools;
    const lzt__rowshape *shape; /* NULL: fields have their usual names */
    uint32_t capacity;
    bool has_tools;
    bool in_prompt; /* messages that are put are a question's: they bear loss only where they say so */
    const char *where;
    lzt_error *err;
} conversation;

/* A row's field: by the name that the registry gives it, else by its usual one (NULL: it has none). */
static const lzt__json *field_of(const lzt__rowshape *shape, const lzt__json *row, int column, const char *usual)
{
    const char *name = shape ? shape->column[column] : usual;
    return name ? lzt__json_get(row, name) : NULL;
}

static lzt_status fail(const conversation *c, const char *what)
{
    return lzt_fail(c->err, LZT_ERR_DATA, c->where, "%s", what);
}

static lzt_status begin(conversation *c, uint32_t messages)
{
    c->arena = lzt__chat_begin(c->m->chat);
    c->capacity = messages;
    bool ok = lzt__value_list(c->arena, messages, LZT__KIND_LIST, &c->messages) &&
              reserve(&c->m->wanted, &c->m->wanted_capacity, (uint64_t)messages + 1);
    if (!ok) return no_memory(c->err);
    c->messages.list->count = 0;
    return LZT_OK;
}

static lzt_status set(const conversation *c, lzt__dict *d, const char *key, lzt__value value)
{
    lzt__value k;
    bool ok = lzt__value_string(c->arena, key, strlen(key), 0, &k) && lzt__dict_set(c->arena, d, k, value);
    return ok ? LZT_OK : no_memory(c->err);
}

static lzt_status put(conversation *c, lzt__value message, float weight)
{
    if (c->messages.list->count == c->capacity) return fail(c, "the conversation has more messages than were counted");
    c->m->wanted[c->messages.list->count] = weight;
    c->messages.list->item[c->messages.list->count++] = message;
    return LZT_OK;
}

/* The weight of a message that says nothing of it. Where everything bears loss, so does every message; a converted row
 * says only what is not the usual. */
static float usual_weight(const conversation *c, bool assistant)
{
    return (assistant && !c->in_prompt) || (c->m->loss_on == LZT_LOSS_ALL && !c->m->converted) ? 1 : 0;
}

static lzt_status add_part(conversation *c, lzt__value *list, const char *text, uint64_t size)
{
    lzt__value kind, content, *part = &list->list->item[list->list->count++];
    if (!lzt__value_dict(c->arena, 2, part) || !lzt__value_string(c->arena, "text", 4, 0, &kind) ||
        !lzt__value_string(c->arena, text, size, 0, &content))
        return no_memory(c->err);
    lzt_status s = set(c, part->dict, "type", kind);
    return s ? s : set(c, part->dict, "text", content);
}

/* A text as a list of one part. */
static lzt_status one_part(conversation *c, const char *text, uint64_t size, lzt__value *list)
{
    if (!lzt__value_list(c->arena, 1, LZT__KIND_LIST, list)) return no_memory(c->err);
    list->list->count = 0;
    return add_part(c, list, text, size);
}

static lzt_status add_text(conversation *c, const char *role, const char *text, uint64_t size)
{
    lzt__value message, r, t;
    if (!lzt__value_dict(c->arena, 3, &message) || !lzt__value_string(c->arena, role, strlen(role), 0, &r) ||
        !lzt__value_string(c->arena, text, size, 0, &t))
        return no_memory(c->err);
    lzt_status s = LZT_OK;
    if (!c->m->converted && lzt__chat_content(c->m->chat) == LZT__CONTENT_PARTS) s = one_part(c, text, size, &t);
    if (!s) s = set(c, message.dict, "role", r);
    if (!s) s = set(c, message.dict, "content", t);
    return s ? s : put(c, message, usual_weight(c, !strcmp(role, "assistant")));
}

static bool is_text(const lzt__json *node)
{
    return node && node->type == LZT__JSON_STRING;
}

static bool is_nothing(const lzt__json *node)
{
    bool hollow = node && (node->type == LZT__JSON_STRING || node->type == LZT__JSON_ARRAY) && !node->size;
    return !node || node->type == LZT__JSON_NULL || hollow;
}

/* The field that node is, with what it is and what it should be. */
static lzt_status wrong_type(const conversation *c, const lzt__json *node, const char *wanted)
{
    static const char *const names[] = {
        [LZT__JSON_NULL] = "null",       [LZT__JSON_FALSE] = "a truth value", [LZT__JSON_TRUE] = "a truth value",
        [LZT__JSON_NUMBER] = "a number", [LZT__JSON_STRING] = "a text",       [LZT__JSON_ARRAY] = "a list",
        [LZT__JSON_OBJECT] = "an object"};
    bool short_one = node->size <= 40 && node->type == LZT__JSON_NUMBER;
    lzt_fail(c->err, LZT_ERR_DATA, c->where, "the field \"%.*s\" is %s%s%.*s, not %s",
             (int)(node->key_size > 60 ? 60 : node->key_size), node->key ? node->key : "", names[node->type],
             short_one ? ", " : "", short_one ? (int)node->size : 0, short_one ? node->text : "", wanted);
    bool quotes = node->type == LZT__JSON_NUMBER && !strncmp(wanted, "a text", 6);
    return lzt_hint(c->err, "%sleave such rows out with on_bad_row: skip", quotes ? "write it in quotes, or " : "");
}

/* The text of a content part; NULL, with an error, when it is something else. */
static const lzt__json *part_text(const conversation *c, const lzt__json *part)
{
    static const char *const types[] = {"text", "input_text", "output_text"};
    const lzt__json *type = lzt__json_get(part, "type"), *text = lzt__json_get(part, "text");
    bool known = is_nothing(type);
    for (size_t i = 0; !known && i < sizeof types / sizeof types[0]; i++) known = lzt__json_is_string(type, types[i]);
    if (!text) text = lzt__json_get(part, "value");
    if (known && is_text(text)) return text;
    bool named = !known && is_text(type);
    lzt_fail(c->err, LZT_ERR_DATA, c->where,
             "a content part is %s%.*s, not a text; images and the like are not supported",
             named ? "of type " : "something else", named ? (int)(type->size > 60 ? 60 : type->size) : 0,
             named ? type->text : "");
    return NULL;
}

/* Content parts, all text, as the one text that they make together. */
static lzt_status join_parts(conversation *c, const lzt__json *parts, lzt__value *text)
{
    uint64_t size = 0, used = 0;
    const lzt__json *p = lzt__json_child(parts);
    for (uint32_t i = 0; i < parts->size; i++, p = lzt__json_next(p)) {
        const lzt__json *t = part_text(c, p);
        if (!t) return LZT_ERR_DATA;
        size += t->size;
    }
    char *bytes = lzt__arena_take(c->arena, size + 1);
    if (!bytes) return no_memory(c->err);
    p = lzt__json_child(parts);
    for (uint32_t i = 0; i < parts->size; i++, p = lzt__json_next(p)) {
        const lzt__json *t = part_text(c, p);
        memcpy(bytes + used, t->text, t->size);
        used += t->size;
    }
    return lzt__value_string(c->arena, bytes, size, 0, text) ? LZT_OK : no_memory(c->err);
}

/* A list of {type, text}, for a template that goes through parts itself: of a list, or of one text. */
static lzt_status list_parts(conversation *c, const lzt__json *content, lzt__value *list)
{
    if (is_text(content)) return one_part(c, content->text, content->size, list);
    if (!lzt__value_list(c->arena, content->size, LZT__KIND_LIST, list)) return no_memory(c->err);
    list->list->count = 0;
    lzt_status s = LZT_OK;
    const lzt__json *p = lzt__json_child(content);
    for (uint32_t i = 0; !s && i < content->size; i++, p = lzt__json_next(p)) {
        const lzt__json *t = part_text(c, p);
        s = t ? add_part(c, list, t->text, t->size) : LZT_ERR_DATA;
    }
    return s;
}

/* The weight of the message that is put next; *weight stays where it has none. */
static lzt_status message_weight(const conversation *c, const lzt__json *message, float *weight)
{
    return lzt__weight_of_message(message, c->messages.list->count + 1, c->where, weight, c->err);
}

/* Whether the template is given parts: of a list where it goes through lists, of a text where it knows nothing else. */
static bool in_parts(const conversation *c, const lzt__json *content)
{
    lzt__content takes = lzt__chat_content(c->m->chat);
    bool list = content->type == LZT__JSON_ARRAY;
    return !c->m->converted && (takes == LZT__CONTENT_PARTS || (takes == LZT__CONTENT_EITHER && list));
}

/* Whether the content is given to the template in another form than the row has it. */
static bool takes_work(const conversation *c, const lzt__json *content)
{
    return content && (content->type == LZT__JSON_ARRAY || (is_text(content) && in_parts(c, content)));
}

/* A message as OpenAI has it. */
static lzt_status add_message(conversation *c, const lzt__json *node)
{
    lzt__value message, content;
    const lzt__json *role = lzt__json_get(node, "role"), *parts = lzt__json_get(node, "content");
    if (node->type != LZT__JSON_OBJECT || !is_text(role)) return fail(c, "a message has no role");
    lzt_status s = lzt__value_from_json(c->arena, node, &message, c->err);
    bool is_content = !parts || is_text(parts) || parts->type == LZT__JSON_ARRAY || parts->type == LZT__JSON_NULL;
    if (!s && !is_content) s = wrong_type(c, parts, "a text or a list of parts");
    if (!s && takes_work(c, parts)) {
        s = in_parts(c, parts) ? list_parts(c, parts, &content) : join_parts(c, parts, &content);
        if (!s) s = set(c, message.dict, "content", content);
    }
    float weight = usual_weight(c, lzt__json_is_string(role, "assistant") || lzt__json_is_string(role, "model"));
    if (!s) s = message_weight(c, node, &weight);
    return s ? s : put(c, message, weight);
}

/* {"name": ..., "arguments": ...}, or a list of such, as text: an assistant's tool calls. */
static lzt_status add_function_call(conversation *c, const lzt__json *node, const lzt__json *value)
{
    float weight = 1;
    lzt__value calls, list, message, role, empty, function;
    lzt_status s = lzt__json_parse(&c->m->doc, value->text, value->size, c->where, c->err);
    if (!s) s = lzt__value_from_json(c->arena, c->m->doc.node, &calls, c->err);
    if (s) return s;
    uint32_t n = calls.kind == LZT__KIND_LIST ? calls.list->count : 1;
    bool ok = lzt__value_list(c->arena, n, LZT__KIND_LIST, &list) && lzt__value_dict(c->arena, 3, &message) &&
              lzt__value_string(c->arena, "assistant", 9, 0, &role) && lzt__value_string(c->arena, "", 0, 0, &empty) &&
              lzt__value_string(c->arena, "function", 8, 0, &function);
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = lzt__value_dict(c->arena, 2, &list.list->item[i]);
        if (ok) s = set(c, list.list->item[i].dict, "type", function);
        if (ok && !s)
            s = set(c, list.list->item[i].dict, "function", calls.kind == LZT__KIND_LIST ? calls.list->item[i] : calls);
        if (s) return s;
    }
    if (!ok) return no_memory(c->err);
    s = set(c, message.dict, "role", role);
    if (!s) s = set(c, message.dict, "content", empty);
    if (!s) s = set(c, message.dict, "tool_calls", list);
    if (!s) s = message_weight(c, node, &weight);
    return s ? s : put(c, message, weight);
}

/* A turn of text, with its weight. */
static lzt_status add_said(conversation *c, const lzt__json *node, const char *role, const lzt__json *value)
{
    float weight = usual_weight(c, !strcmp(role, "assistant"));
    lzt_status s = message_weight(c, node, &weight);
    if (!s) s = add_text(c, role, value->text, value->size);
    if (!s) c->m->wanted[c->messages.list->count - 1] = weight;
    return s;
}

static lzt_status nobody_known(const conversation *c, const lzt__json *who)
{
    return lzt_fail(c->err, LZT_ERR_DATA, c->where, "a turn is from \"%.*s\", which is nobody known",
                    (int)(who->size > 60 ? 60 : who->size), who->text);
}

/* A turn whose fields and roles have the names that the registry gives them. */
static lzt_status add_tagged(conversation *c, const lzt__json *node)
{
    static const char *const role[LZT__TAG_COUNT] = {[LZT__TAG_USER] = "user",
                                                     [LZT__TAG_ASSISTANT] = "assistant",
                                                     [LZT__TAG_OBSERVATION] = "tool",
                                                     [LZT__TAG_SYSTEM] = "system"};
    char *const *tag = c->shape->tag;
    const lzt__json *who = lzt__json_get(node, tag[LZT__TAG_ROLE]), *value = lzt__json_get(node, tag[LZT__TAG_CONTENT]);
    if (!is_text(who) || !is_text(value))
        return lzt_fail(c->err, LZT_ERR_DATA, c->where, "a turn has no text in `%s` and `%s`", tag[LZT__TAG_ROLE],
                        tag[LZT__TAG_CONTENT]);
    for (int i = LZT__TAG_USER; i < LZT__TAG_COUNT; i++) {
        if (!tag[i] || !lzt__json_is_string(who, tag[i])) continue;
        return i == LZT__TAG_FUNCTION ? add_function_call(c, node, value) : add_said(c, node, role[i], value);
    }
    nobody_known(c, who);
    return lzt_hint(c->err, "the tags of its dataset_info.json name the roles");
}

/* A turn as ShareGPT has it. */
static lzt_status add_turn(conversation *c, const lzt__json *node)
{
    static const char *const from[] = {"human", "user",    "gpt",    "assistant",   "bot",
                                       "model", "chatgpt", "system", "observation", "tool"};
    static const char *const role[] = {"user",      "user",      "assistant", "assistant", "assistant",
                                       "assistant", "assistant", "system",    "tool",      "tool"};
    const lzt__json *who = lzt__json_get(node, "from"), *value = lzt__json_get(node, "value");
    if (!who && lzt__json_get(node, "role")) return add_message(c, node);
    if (!is_text(who) || !is_text(value)) return fail(c, "a turn has no `from` and `value`");
    if (lzt__json_is_string(who, "function_call")) return add_function_call(c, node, value);
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        if (lzt__json_is_string(who, from[i])) return add_said(c, node, role[i], value);
    return nobody_known(c, who);
}

/* Tools: a list, or the JSON text of one. */
static lzt_status add_tools(conversation *c, const lzt__json *row)
{
    const lzt__json *tools = field_of(c->shape, row, LZT__COLUMN_TOOLS, "tools");
    if (is_nothing(tools)) return LZT_OK;
    if (tools->type == LZT__JSON_STRING) {
        lzt_status s = lzt__json_parse(&c->m->doc, tools->text, tools->size, c->where, c->err);
        if (s) return s;
        tools = c->m->doc.node;
    }
    if (tools->type != LZT__JSON_ARRAY) return fail(c, "tools is not a list");
    c->has_tools = tools->size > 0;
    return lzt__value_from_json(c->arena, tools, &c->tools, c->err);
}

/* ---- from a row to its conversation ---- */

/* The row's `system`, ahead of its turns. */
static lzt_status add_system(conversation *c, const lzt__json *row)
{
    const lzt__json *system = field_of(c->shape, row, LZT__COLUMN_SYSTEM, "system");
    if (is_nothing(system)) return LZT_OK;
    return is_text(system) ? add_text(c, "system", system->text, system->size) : wrong_type(c, system, "a text");
}

static bool is_system(const lzt__value *message)
{
    const lzt__value *role = lzt__dict_find(message->dict, "role");
    return role && role->kind == LZT__KIND_STRING && role->string->size == 6 &&
           !memcmp(role->string->bytes, "system", 6);
}

/* A `system` beside a system turn is that turn again, or nobody can tell which one is meant. */
static lzt_status one_system(conversation *c)
{
    lzt__value *item = c->messages.list->item;
    uint32_t count = c->messages.list->count;
    if (count < 2 || !is_system(&item[1])) return LZT_OK;
    const lzt__value *a = lzt__dict_find(item[0].dict, "content"), *b = lzt__dict_find(item[1].dict, "content");
    bool unknown = false;
    if (!a || !b || !lzt__value_equal(a, b, &unknown))
        return fail(c, "the row has a system text of its own and another one in its first turn");
    memmove(item, item + 1, (count - 1) * sizeof *item);
    memmove(c->m->wanted, c->m->wanted + 1, (count - 1) * sizeof *c->m->wanted);
    c->messages.list->count--;
    return LZT_OK;
}

/* list: the conversation; or a question, where more is its answer. */
static lzt_status from_list(conversation *c, const lzt__json *row, const lzt__json *list, const lzt__json *more)
{
    lzt_status s = begin(c, list->size + (more ? more->size : 0) + 1);
    if (!s) s = add_system(c, row);
    bool system = !s && c->messages.list->count;
    for (int k = 0; k < 2; k++) {
        const lzt__json *of = k ? more : list, *n = of ? lzt__json_child(of) : NULL;
        c->in_prompt = more && !k;
        for (uint32_t i = 0; !s && of && i < of->size; i++, n = lzt__json_next(n))
            s = !c->shape                                    ? add_turn(c, n)
                : c->shape->formatting == LZT__FORMAT_OPENAI ? add_message(c, n)
                                                             : add_tagged(c, n);
    }
    if (!s && system) s = one_system(c);
    return s ? s : add_tools(c, row);
}

/* instruction, and on a line of its own the input. */
static lzt_status add_instruction(conversation *c, const lzt__json *query, const lzt__json *input)
{
    if (is_nothing(input)) return add_text(c, "user", query->text, query->size);
    if (!is_text(input)) return wrong_type(c, input, "a text");
    uint64_t size = (uint64_t)query->size + 1 + input->size;
    char *bytes = lzt__arena_take(c->arena, size);
    if (!bytes) return no_memory(c->err);
    memcpy(bytes, query->text, query->size);
    bytes[query->size] = '\n';
    memcpy(bytes + query->size + 1, input->text, input->size);
    return add_text(c, "user", bytes, size);
}

static lzt_status from_pair(conversation *c, const lzt__json *row, const lzt__json *query, const lzt__json *input,
                            const lzt__json *response)
{
    const lzt__json *history = field_of(c->shape, row, LZT__COLUMN_HISTORY, "history");
    bool has_history = !is_nothing(history);
    if (has_history && history->type != LZT__JSON_ARRAY) return wrong_type(c, history, "a list of [question, answer]");
    lzt_status s = begin(c, 3 + (has_history ? 2 * history->size : 0));
    if (!s) s = add_system(c, row);
    const lzt__json *h = has_history ? lzt__json_child(history) : NULL;
    for (uint32_t i = 0; !s && h && i < history->size; i++, h = lzt__json_next(h)) {
        const lzt__json *q = h->type == LZT__JSON_ARRAY && h->size == 2 ? lzt__json_child(h) : NULL,
                        *a = q ? lzt__json_next(q) : NULL;
        if (!is_text(q) || !is_text(a)) return fail(c, "history is not a list of [question, answer]");
        s = add_text(c, "user", q->text, q->size);
        if (!s) s = add_text(c, "assistant", a->text, a->size);
    }
    if (!s) s = add_instruction(c, query, input);
    if (!s) s = add_text(c, "assistant", response->text, response->size);
    return s ? s : add_tools(c, row);
}

/* Every message has a weight of 1. */
static bool all_alike(const conversation *c)
{
    for (uint32_t i = 0; i < c->messages.list->count; i++)
        if (c->m->wanted[i] != 1) return false;
    return true;
}

static void choose_trained(conversation *c)
{
    float *wanted = c->m->wanted;
    bool found = false;
    for (uint32_t i = c->messages.list->count; c->m->loss_on == LZT_LOSS_LAST && i; i--) {
        if (found) wanted[i - 1] = 0;
        found = found || wanted[i - 1] > 0;
    }
}

/* Keeps an answer that is a text, or the list of texts that list_parts makes. */
static lzt_status keep_content(const conversation *c, const lzt__value *content)
{
    lzt__rowmaker *m = c->m;
    bool list = content->kind == LZT__KIND_LIST;
    if (!list) return keep_answer(m, content->string->bytes, content->string->size, c->err);
    lzt_status s = keep_answer(m, "", 0, c->err);
    for (uint32_t i = 0; !s && i < content->list->count; i++) {
        const lzt__string *part = lzt__dict_find(content->list->item[i].dict, "text")->string;
        char *grown = realloc(m->answer, m->answer_size + part->size + 1);
        if (!grown) return no_memory(c->err);
        m->answer = grown;
        memcpy(grown + m->answer_size, part->bytes, part->size);
        m->answer_size += part->size;
        grown[m->answer_size] = 0;
    }
    return s;
}

/* The conversation up to the assistant's last turn, with the generation prompt; that turn is the answer. */
static lzt_status ask(conversation *c, lzt__rowbuf *buf)
{
    lzt_rendered text;
    lzt_encoding e;
    uint32_t last = c->messages.list->count;
    while (last && !lzt__chat_is_assistant(&c->messages.list->item[last - 1])) last--;
    const lzt__value *content = last > 1 ? lzt__dict_find(c->messages.list->item[last - 1].dict, "content") : NULL;
    if (!content || (content->kind != LZT__KIND_STRING && content->kind != LZT__KIND_LIST))
        return fail(c, "the row has no question with an answer of the assistant's");
    const lzt__value *tools = c->has_tools ? &c->tools : NULL;
    lzt_status s = keep_content(c, content);
    c->messages.list->count = last - 1;
    if (!s) s = lzt__chat_render(c->m->chat, &c->messages, tools, true, &text, c->err);
    if (!s) s = lzt__chat_check_calls(c->m->chat, &c->messages, tools, c->err);
    if (!s) s = lzt_encoder_encode(c->m->encoder, text.text, text.size, text.writer, LZT_ENCODE_ADDED, &e, c->err);
    return s ? s : append(buf, &e, NULL, -1, c->err);
}

static lzt_status finish(conversation *c, lzt__rowbuf *buf)
{
    lzt__rowmaker *m = c->m;
    const lzt__value *tools = c->has_tools ? &c->tools : NULL;
    lzt_status s = lzt__weights_allow(m->weight, m->wanted, c->messages.list->count, "message", c->where, c->err);
    if (s) return s;
    if (m->question) return ask(c, buf);
    if (m->converted) return lzt__convert_messages(m->converted, c->arena, &c->messages, tools, m->wanted, c->err);
    lzt_rendered text;
    lzt_encoding e;
    choose_trained(c);
    s = lzt__chat_render(m->chat, &c->messages, tools, false, &text, c->err);
    if (!s) s = lzt__chat_check_calls(m->chat, &c->messages, tools, c->err);
    if (!s) s = lzt_encoder_encode(m->encoder, text.text, text.size, text.writer, LZT_ENCODE_ADDED, &e, c->err);
    if (!s && !reserve(&m->trained, &m->trained_capacity, e.count)) s = no_memory(c->err);
    bool all = m->loss_on == LZT_LOSS_ALL, alike = all && all_alike(c);
    if (!s && !alike) s = lzt__chat_trained(m->chat, &e, &c->messages, m->wanted, all, m->trained, c->err);
    if (s && c->err) { /* the row, and then where in the template */
        char place[512];
        snprintf(place, sizeof place, "%s", c->err->where);
        snprintf(c->err->where, sizeof c->err->where, "%s", c->where);
        if (place[0] && !c->err->hint[0]) snprintf(c->err->hint, sizeof c->err->hint, "in %.500s", place);
    }
    if (!s) s = append(buf, &e, alike ? NULL : m->trained, -1, c->err);
    if (!s) buf->control_text = lzt__tokenizer_spells_control(m->tokenizer, text.text, text.size, text.writer);
    return s;
}

/* ---- which format ---- */

typedef struct pair {
    const char *query, *response;
} pair;

static const pair known_pairs[] = {{"query", "response"},
                                   {"question", "answer"},
                                   {"prompt", "completion"},
                                   {"prompt", "response"},
                                   {"instruction", "output"}};

/* Sets *input to the text that goes below the question, or NULL. */
static bool find_pair(const lzt__rowmaker *m, const lzt__json *row, const lzt__json **query, const lzt__json **input,
                      const lzt__json **response)
{
    pair own = {m->query_field, m->response_field};
    size_t n = own.query ? 1 : sizeof known_pairs / sizeof known_pairs[0];
    for (size_t i = 0; i < n; i++) {
        const pair *p = own.query ? &own : &known_pairs[i];
        *query = lzt__json_get(row, p->query);
        *response = lzt__json_get(row, p->response);
        *input = strcmp(p->query, "instruction") ? NULL : lzt__json_get(row, "input");
        if (*query && *response) return true;
    }
    return false;
}

static lzt_status no_template(const char *where, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_DATA, where, "the row is a conversation, but there is no chat template");
    return lzt_hint(err, "set template: auto, or a built-in one (alpaca, chatml, qwen2.5, qwen3, llama3, raw)");
}

/* Question and answer are all that the row says. */
static bool is_bare(const conversation *c, const lzt__json *row, const lzt__json *input)
{
    return is_nothing(input) && is_nothing(field_of(c->shape, row, LZT__COLUMN_SYSTEM, "system")) &&
           is_nothing(field_of(c->shape, row, LZT__COLUMN_HISTORY, "history")) &&
           is_nothing(field_of(c->shape, row, LZT__COLUMN_TOOLS, "tools"));
}

static lzt_status pair_row(conversation *c, const lzt__json *row, const lzt__json *query, const lzt__json *input,
                           const lzt__json *response, lzt__rowbuf *buf)
{
    bool lists = query->type == LZT__JSON_ARRAY && response->type == LZT__JSON_ARRAY;
    if (!lists && (!is_text(query) || !is_text(response)))
        return wrong_type(c, is_text(query) ? response : query, "a text");
    if (!c->m->chat && !lists && is_bare(c, row, input))
        return c->m->question ? ask_plain_pair(c->m, query, response, buf, c->err)
                              : plain_pair(c->m, query, response, buf, c->err);
    if (!c->m->chat) return no_template(c->where, c->err);
    lzt_status s = lists ? from_list(c, row, query, response) : from_pair(c, row, query, input, response);
    return s ? s : finish(c, buf);
}

static lzt_status list_row(conversation *c, const lzt__json *row, const lzt__json *list, lzt__rowbuf *buf)
{
    if (!c->m->chat) return no_template(c->where, c->err);
    lzt_status s = from_list(c, row, list, NULL);
    return s ? s : finish(c, buf);
}

static lzt_status text_row(conversation *c, const lzt__json *text, lzt__rowbuf *buf)
{
    if (!is_text(text)) return wrong_type(c, text, "a text");
    if (c->m->question) return fail(c, "the row is a text, without question and answer");
    if (c->m->converted) return lzt__convert_text(c->m->converted, text, c->err);
    return plain_text(c->m, text, buf, c->err);
}

/* A row in the shape that the registry gives it. */
static lzt_status shaped_row(conversation *c, const lzt__json *row, lzt__rowbuf *buf)
{
    bool alpaca = c->shape->formatting == LZT__FORMAT_ALPACA;
    int first = alpaca ? LZT__COLUMN_PROMPT : LZT__COLUMN_MESSAGES;
    const lzt__json *main = field_of(c->shape, row, first, NULL),
                    *input = field_of(c->shape, row, LZT__COLUMN_QUERY, NULL),
                    *response = field_of(c->shape, row, LZT__COLUMN_RESPONSE, NULL);
    int missing = !main ? first : alpaca && !response ? LZT__COLUMN_RESPONSE : -1;
    if (main && alpaca && !c->shape->column[LZT__COLUMN_RESPONSE]) /* a column of plain text */
        return text_row(c, main, buf);
    if (missing >= 0) {
        lzt_fail(c->err, LZT_ERR_DATA, c->where, "the row has no field \"%s\"", c->shape->column[missing]);
        return lzt_hint(c->err, "columns of its dataset_info.json name the fields");
    }
    if (alpaca) return pair_row(c, row, main, input, response, buf);
    return main->type == LZT__JSON_ARRAY ? list_row(c, row, main, buf) : wrong_type(c, main, "a list of messages");
}

static lzt_status detected_row(conversation *c, const lzt__json *row, lzt__rowbuf *buf)
{
    const lzt__json *list = lzt__json_get(row, "messages"), *query, *input, *response,
                    *text = lzt__json_get(row, "text");
    bool named = c->m->query_field;
    if (!list) list = lzt__json_get(row, "conversations");
    if (!list) list = lzt__json_get(row, "conversation");
    if (!named && list && list->type == LZT__JSON_ARRAY) return list_row(c, row, list, buf);
    if (find_pair(c->m, row, &query, &input, &response)) return pair_row(c, row, query, input, response, buf);
    if (!named && text) return text_row(c, text, buf);
    if (!named && list) return wrong_type(c, list, "a list of messages");
    fail(c, "the row is in no format that is known");
    return lzt_hint(c->err, "it needs input_ids, messages, conversations, text, or a question and its answer "
                            "(query_field, response_field)");
}

lzt_status lzt__row_text(lzt__rowmaker *m, const lzt__json *row, const char *where, lzt__rowbuf *buf, lzt_error *err)
{
    conversation c = {.m = m, .where = where, .err = err};
    if (m->shape && m->shape->formatting != LZT__FORMAT_DETECTED) c.shape = m->shape;
    lzt_status s = c.shape ? shaped_row(&c, row, buf) : detected_row(&c, row, buf);
    if (!s && !m->converted) note_bos(m, buf);
    if (s && err && !err->where[0]) snprintf(err->where, sizeof err->where, "%s", where);
    return s;
}
