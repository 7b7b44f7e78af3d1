/* tokenizer.json: each component by name, or an error that names it. */
#include "data/tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct loading {
    lzt_tokenizer *t;
    const char *where;
    bool byte_level;      /* a ByteLevel pre-tokenizer ends the splits */
    int32_t unspell[512]; /* byte of a printable code point, -1: none */
    char *scratch;        /* [scratch_size] */
    uint64_t scratch_size;
    lzt_error *err;
} loading;

static lzt_status refuse(const loading *l, const char *part, const lzt__json *type)
{
    return lzt_fail(l->err, LZT_ERR_DATA, l->where, "%s %.*s is not supported", part,
                    type && type->type == LZT__JSON_STRING ? (int)type->size : 9,
                    type && type->type == LZT__JSON_STRING ? type->text : "(no type)");
}

static lzt_status malformed(const loading *l, const char *what)
{
    return lzt_fail(l->err, LZT_ERR_DATA, l->where, "not a tokenizer.json: %s", what);
}

static bool is_nothing(const lzt__json *node)
{
    return !node || node->type == LZT__JSON_NULL;
}

static lzt_status copy(const lzt__json *from, char **to, uint32_t *size, const loading *l)
{
    if (!from || from->type != LZT__JSON_STRING) return malformed(l, "a text is missing in a normalizer");
    *to = malloc((uint64_t)from->size + 1);
    if (!*to) return lzt_fail(l->err, LZT_ERR_NO_MEMORY, l->where, "no memory for a tokenizer");
    memcpy(*to, from->text, from->size);
    (*to)[from->size] = 0;
    *size = from->size;
    return LZT_OK;
}

/* ---- normaliser ---- */

/* {"String": text} or {"Regex": pattern}. An empty text is the empty pattern: it matches between any two characters. */
static lzt_status replacement(loading *l, const lzt__json *node, lzt__norm *n)
{
    const lzt__json *pattern = lzt__json_get(node, "pattern"), *text = lzt__json_get(pattern, "String"),
                    *regex = lzt__json_get(pattern, "Regex");
    if (text && text->type == LZT__JSON_STRING && !text->size) regex = text;
    n->kind = LZT__NORM_REPLACE;
    if (regex && regex->type != LZT__JSON_STRING) return malformed(l, "a replacement without its pattern");
    lzt_status s = regex ? lzt__regex_compile(regex->text, regex->size, LZT__PATTERN_ONIGURUMA, &n->regex, l->err)
                         : copy(text, &n->a, &n->a_size, l);
    return s ? s : copy(lzt__json_get(node, "content"), &n->b, &n->b_size, l);
}

static lzt_status normaliser(loading *l, const lzt__json *node, uint32_t depth)
{
    lzt_tokenizer *t = l->t;
    if (is_nothing(node)) return LZT_OK;
    const lzt__json *type = lzt__json_get(node, "type");
    if (lzt__json_is_string(type, "Sequence") && depth < 4) {
        const lzt__json *list = lzt__json_get(node, "normalizers");
        if (!list || list->type != LZT__JSON_ARRAY) return malformed(l, "a sequence without normalizers");
        lzt_status s = LZT_OK;
        const lzt__json *c = lzt__json_child(list);
        for (uint32_t i = 0; !s && i < list->size; i++, c = lzt__json_next(c)) s = normaliser(l, c, depth + 1);
        return s;
    }
    if (t->norm_count == LZT__STEPS_MAX) return malformed(l, "more than 16 normalizers");
    lzt__norm *n = &t->norm[t->norm_count++];
    if (lzt__json_is_string(type, "NFC"))
        n->kind = LZT__NORM_NFC;
    else if (lzt__json_is_string(type, "NFD"))
        n->kind = LZT__NORM_NFD;
    else if (lzt__json_is_string(type, "Prepend")) {
        n->kind = LZT__NORM_PREPEND;
        return copy(lzt__json_get(node, "prepend"), &n->a, &n->a_size, l);
    } else if (lzt__json_is_string(type, "Replace")) {
        return replacement(l, node, n);
    } else {
        return refuse(l, "normalizer", type);
    }
    return LZT_OK;
}

/* ---- pre-tokenizer ---- */

static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static lzt_status split_behavior(loading *l, const lzt__json *node, lzt__split *s)
{
    static const char *const name[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const lzt__json *behavior = lzt__json_get(node, "behavior");
    s->invert = lzt__json_flag(node, "invert", false);
    for (uint32_t i = 0; i < 5; i++)
        if (lzt__json_is_string(behavior, name[i])) {
            s->behavior = (lzt__split_behavior)i;
            return LZT_OK;
        }
    return refuse(l, "split behavior", behavior);
}

static lzt_status pattern_split(loading *l, const lzt__json *node)
{
    lzt_tokenizer *t = l->t;
    const lzt__json *pattern = lzt__json_get(node, "pattern"), *regex = lzt__json_get(pattern, "Regex"),
                    *literal = lzt__json_get(pattern, "String");
    if (t->split_count == LZT__STEPS_MAX) return malformed(l, "more than 16 split patterns");
    lzt__split how = {0}, *s = &t->split[t->split_count];
    lzt_status status = split_behavior(l, node, &how);
    if (status) return status;
    if (literal && literal->type == LZT__JSON_STRING && !literal->size) regex = literal; /* it matches everywhere */
    if (literal && literal->type == LZT__JSON_STRING && literal->size) {
        *s = how;
        s->kind = LZT__SPLIT_LITERAL;
        status = copy(literal, &s->literal, &s->literal_size, l);
        t->split_count += !status;
        return status;
    }
    if (!regex || regex->type != LZT__JSON_STRING) return malformed(l, "a split without its pattern");
    bool plain = how.behavior == LZT__SPLIT_ISOLATED;
    if (plain) return lzt__tokenizer_split(t, regex->text, regex->size, LZT__PATTERN_ONIGURUMA, l->err);
    *s = how; /* the splitters by hand isolate: this one goes through the general path */
    s->kind = LZT__SPLIT_REGEX;
    status = lzt__regex_compile(regex->text, regex->size, LZT__PATTERN_ONIGURUMA, &s->regex, l->err);
    t->split_count += !status;
    return status;
}

static lzt_status metaspace(loading *l, const lzt__json *node)
{
    const lzt__json *scheme = lzt__json_get(node, "prepend_scheme"), *replacement = lzt__json_get(node, "replacement");
    if (!is_nothing(replacement) && !lzt__json_is_string(replacement, "\xe2\x96\x81"))
        return lzt_fail(l->err, LZT_ERR_DATA, l->where,
                        "pre_tokenizer Metaspace with another replacement is not supported");
    bool old = lzt__json_flag(node, "add_prefix_space", true);
    if (lzt__json_is_string(scheme, "first"))
        l->t->metaspace = LZT__METASPACE_FIRST;
    else if (lzt__json_is_string(scheme, "never") || (is_nothing(scheme) && !old))
        l->t->metaspace = LZT__METASPACE_NEVER;
    else
        l->t->metaspace = LZT__METASPACE_ALWAYS;
    if (!lzt__json_flag(node, "split", true)) return LZT_OK;
    if (l->t->split_count == LZT__STEPS_MAX) return malformed(l, "more than 16 split patterns");
    lzt__split *s = &l->t->split[l->t->split_count++];
    *s = (lzt__split){.kind = LZT__SPLIT_LITERAL, .behavior = LZT__SPLIT_MERGED_WITH_NEXT, .literal_size = 3};
    s->literal = strdup("\xe2\x96\x81");
    return s->literal ? LZT_OK : lzt_fail(l->err, LZT_ERR_NO_MEMORY, l->where, "no memory for a tokenizer");
}

static lzt_status byte_level(loading *l, const lzt__json *node)
{
    if (lzt__json_flag(node, "add_prefix_space", true)) {
        if (l->t->split_count)
            return lzt_fail(l->err, LZT_ERR_DATA, l->where,
                            "pre_tokenizer ByteLevel with add_prefix_space after a split is not supported");
        l->t->prefix_space = true;
    }
    l->byte_level = true;
    if (!lzt__json_flag(node, "use_regex", true)) return LZT_OK;
    return lzt__tokenizer_split(l->t, gpt2_pattern, sizeof gpt2_pattern - 1, LZT__PATTERN_ONIGURUMA, l->err);
}

/* What such a pattern puts ahead of a text the reference's ByteLevel writes twice. */
static lzt_status refuse_insertions(const loading *l)
{
    for (uint32_t i = 0; i < l->t->norm_count; i++)
        if (l->t->norm[i].regex && l->t->norm[i].b_size && lzt__regex_matches_empty(l->t->norm[i].regex))
            return lzt_fail(
                l->err, LZT_ERR_DATA, l->where,
                "normalizer Replace by a pattern that matches the empty text is not supported with ByteLevel");
    return LZT_OK;
}

static lzt_status pre_tokenizer(loading *l, const lzt__json *node, uint32_t depth)
{
    if (is_nothing(node)) return LZT_OK;
    const lzt__json *type = lzt__json_get(node, "type");
    if (l->byte_level || l->t->metaspace)
        return lzt_fail(l->err, LZT_ERR_DATA, l->where, "a pre_tokenizer after %s is not supported",
                        l->byte_level ? "ByteLevel" : "Metaspace");
    if (lzt__json_is_string(type, "Sequence") && depth < 4) {
        const lzt__json *list = lzt__json_get(node, "pretokenizers");
        if (!list || list->type != LZT__JSON_ARRAY) return malformed(l, "a sequence without pretokenizers");
        lzt_status s = LZT_OK;
        const lzt__json *c = lzt__json_child(list);
        for (uint32_t i = 0; !s && i < list->size; i++, c = lzt__json_next(c)) s = pre_tokenizer(l, c, depth + 1);
        return s;
    }
    if (lzt__json_is_string(type, "Split")) return pattern_split(l, node);
    if (lzt__json_is_string(type, "ByteLevel")) return byte_level(l, node);
    if (lzt__json_is_string(type, "Metaspace")) {
        if (l->t->split_count)
            return lzt_fail(l->err, LZT_ERR_DATA, l->where, "pre_tokenizer Metaspace after a split is not supported");
        return metaspace(l, node);
    }
    if (!lzt__json_is_string(type, "Digits")) return refuse(l, "pre_tokenizer", type);
    if (l->t->split_count == LZT__STEPS_MAX) return malformed(l, "more than 16 split patterns");
    bool single = lzt__json_flag(node, "individual_digits", false);
    l->t->split[l->t->split_count++] = (lzt__split){.kind = LZT__SPLIT_DIGITS, .digits = single};
    return LZT_OK;
}

/* ---- model ---- */

static lzt_status scratch_for(loading *l, uint64_t size)
{
    if (size <= l->scratch_size) return LZT_OK;
    char *grown = realloc(l->scratch, 2 * size);
    if (!grown) return lzt_fail(l->err, LZT_ERR_NO_MEMORY, l->where, "no memory for a tokenizer");
    l->scratch = grown;
    l->scratch_size = 2 * size;
    return LZT_OK;
}

/* A spelling's bytes: unspelled where the model is byte-level and every character stands for a byte; else as it is. */
static lzt_status bytes_of(loading *l, const char *text, uint32_t size, const char **bytes, uint32_t *count)
{
    *bytes = text;
    *count = size;
    if (!l->byte_level) return LZT_OK;
    lzt_status s = scratch_for(l, (uint64_t)size + 1);
    uint32_t used = 0;
    for (uint32_t i = 0; !s && i < size;) {
        uint32_t code;
        i += lzt__utf8_next(text + i, &code);
        if (code >= 512 || l->unspell[code] < 0) return LZT_OK;
        l->scratch[used++] = (char)l->unspell[code];
    }
    *bytes = l->scratch;
    *count = used;
    return s;
}

static lzt_status vocabulary(loading *l, const lzt__json *vocab)
{
    lzt_tokenizer *t = l->t;
    if (!vocab || vocab->type != LZT__JSON_OBJECT) return malformed(l, "the model has no vocab");
    lzt_status s = lzt__vocab_reserve(&t->vocab, vocab->size, (uint64_t)vocab->size * 8, l->err);
    const lzt__json *c = lzt__json_child(vocab);
    for (uint32_t i = 0; !s && i < vocab->size; i++, c = lzt__json_next(c)) {
        int64_t id;
        const char *bytes;
        uint32_t size;
        bool fresh = true;
        if (!lzt__json_integer(c, &id) || id < 0 || id >= LZT__ID_LIMIT)
            return lzt_fail(l->err, LZT_ERR_DATA, l->where, "the id of token %.*s is not a number below 2^24",
                            (int)(c->key_size > 60 ? 60 : c->key_size), c->key);
        s = bytes_of(l, c->key, c->key_size, &bytes, &size);
        if (!s) s = lzt__vocab_add(&t->vocab, bytes, size, (uint32_t)id, &fresh, l->err);
        if (!s && !fresh)
            s = lzt_fail(l->err, LZT_ERR_DATA, l->where, "token %.*s or its id %lld is there twice",
                         (int)(c->key_size > 60 ? 60 : c->key_size), c->key, (long long)id);
    }
    return s;
}

/* The two halves of a merge, in either spelling: "a b" or ["a", "b"]. */
static bool halves(const lzt__json *m, const char **a, uint32_t *a_size, const char **b, uint32_t *b_size)
{
    if (m->type == LZT__JSON_STRING) {
        const char *space = memchr(m->text, ' ', m->size);
        if (!space) return false;
        *a = m->text;
        *a_size = (uint32_t)(space - m->text);
        *b = space + 1;
        *b_size = m->size - *a_size - 1;
        return !memchr(*b, ' ', *b_size);
    }
    if (m->type != LZT__JSON_ARRAY || m->size != 2) return false;
    const lzt__json *x = lzt__json_child(m), *y = lzt__json_next(x);
    if (x->type != LZT__JSON_STRING || y->type != LZT__JSON_STRING) return false;
    *a = x->text;
    *a_size = x->size;
    *b = y->text;
    *b_size = y->size;
    return true;
}

static lzt_status one_merge(loading *l, const lzt__json *m, uint32_t rank)
{
    lzt_tokenizer *t = l->t;
    const char *a, *b, *bytes;
    uint32_t a_size, b_size, size;
    char whole[1024];
    if (!halves(m, &a, &a_size, &b, &b_size)) return malformed(l, "a merge is neither \"a b\" nor [a, b]");
    lzt_status s = bytes_of(l, a, a_size, &bytes, &size);
    if (s) return s;
    uint32_t left = lzt__vocab_find(&t->vocab, bytes, size), used = size;
    if (used <= sizeof whole) memcpy(whole, bytes, used);
    s = bytes_of(l, b, b_size, &bytes, &size);
    if (s) return s;
    uint32_t right = lzt__vocab_find(&t->vocab, bytes, size);
    if (used + size > sizeof whole) return malformed(l, "a merge above 1024 bytes");
    memcpy(whole + used, bytes, size);
    uint32_t id = lzt__vocab_find(&t->vocab, whole, used + size);
    if (left == LZT__BPE_NONE || right == LZT__BPE_NONE || id == LZT__BPE_NONE)
        return lzt_fail(l->err, LZT_ERR_DATA, l->where, "merge %u names a token that is not in the vocabulary", rank);
    lzt__bpe_add(&t->bpe, left, right, rank, id);
    return LZT_OK;
}

static lzt_status merges(loading *l, const lzt__json *list)
{
    if (!list || list->type != LZT__JSON_ARRAY) return malformed(l, "the model has no merges");
    lzt_status s = lzt__bpe_init(&l->t->bpe, list->size, l->err);
    const lzt__json *c = lzt__json_child(list);
    for (uint32_t i = 0; !s && i < list->size; i++, c = lzt__json_next(c)) s = one_merge(l, c, i);
    return s;
}

static bool has_text(const lzt__json *node)
{
    return node && node->type == LZT__JSON_STRING && node->size;
}

static lzt_status find_byte_tokens(loading *l)
{
    char name[8];
    for (uint32_t b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        l->t->byte_id[b] = lzt__vocab_find(&l->t->vocab, name, 6);
    }
    return LZT_OK;
}

static lzt_status model(loading *l, const lzt__json *node)
{
    lzt_tokenizer *t = l->t;
    const lzt__json *type = lzt__json_get(node, "type"), *dropout = lzt__json_get(node, "dropout"),
                    *unk = lzt__json_get(node, "unk_token");
    if (!node || node->type != LZT__JSON_OBJECT) return malformed(l, "there is no model");
    if (!is_nothing(type) && !lzt__json_is_string(type, "BPE")) return refuse(l, "model", type);
    if (is_nothing(type) && !lzt__json_get(node, "merges")) return refuse(l, "model", type);
    if (!is_nothing(dropout) &&
        !(dropout->type == LZT__JSON_NUMBER && dropout->text[0] == '0' && strspn(dropout->text, "0.") >= dropout->size))
        return lzt_fail(l->err, LZT_ERR_DATA, l->where, "model BPE with dropout is not supported");
    if (has_text(lzt__json_get(node, "continuing_subword_prefix")) ||
        has_text(lzt__json_get(node, "end_of_word_suffix")))
        return lzt_fail(l->err, LZT_ERR_DATA, l->where,
                        "model BPE with a subword prefix or word suffix is not supported");
    lzt_status s = vocabulary(l, lzt__json_get(node, "vocab"));
    if (!s) s = merges(l, lzt__json_get(node, "merges"));
    if (s) return s;
    t->model = l->byte_level ? LZT__MODEL_BYTES : LZT__MODEL_CHARACTERS;
    t->ignore_merges = lzt__json_flag(node, "ignore_merges", false);
    t->fuse_unk = lzt__json_flag(node, "fuse_unk", false);
    t->byte_fallback = lzt__json_flag(node, "byte_fallback", false);
    if (has_text(unk)) {
        t->unk = lzt__vocab_find(&t->vocab, unk->text, unk->size);
        if (t->unk == LZT__BPE_NONE)
            return lzt_fail(l->err, LZT_ERR_DATA, l->where, "unk_token is not in the vocabulary");
    }
    if (!l->byte_level) return find_byte_tokens(l);
    lzt__tokenizer_bytes(t);
    for (uint32_t b = 0; b < 256; b++)
        if (t->byte_id[b] == LZT__BPE_NONE && (t->byte_fallback || t->unk != LZT__BPE_NONE))
            return lzt_fail(l->err, LZT_ERR_DATA, l->where,
                            "a byte-level vocabulary without byte %u but with an unk_token is not supported", b);
    return LZT_OK;
}

/* ---- added tokens, post-processor, decoder ---- */

static lzt_status one_added(loading *l, const lzt__json *node)
{
    lzt_tokenizer *t = l->t;
    const lzt__json *content = lzt__json_get(node, "content");
    int64_t id;
    const char *bytes;
    uint32_t size;
    if (!content || content->type != LZT__JSON_STRING || !lzt__json_integer(lzt__json_get(node, "id"), &id) || id < 0 ||
        id >= LZT__ID_LIMIT)
        return malformed(l, "an added token without content or id");
    if (!content->size) return LZT_OK;
    lzt_status s = bytes_of(l, content->text, content->size, &bytes, &size);
    if (s) return s;
    uint32_t known = lzt__vocab_find(&t->vocab, bytes, size);
    /* text that no spelling has (two spaces, beside a token of the bytes of two spaces) is not in the vocabulary */
    if (l->byte_level && bytes == content->text && known != (uint32_t)id) known = LZT__BPE_NONE;
    bool taken = (uint64_t)id < t->vocab.id_count && t->vocab.size[id] != LZT__BPE_NONE;
    if (known != LZT__BPE_NONE ? known != (uint32_t)id : taken)
        return lzt_fail(l->err, LZT_ERR_DATA, l->where,
                        "added token %.*s has id %lld, which the vocabulary contradicts",
                        (int)(content->size > 60 ? 60 : content->size), content->text, (long long)id);
    bool special = lzt__json_flag(node, "special", false);
    lzt__added a = {.id = (uint32_t)id,
                    .special = special,
                    .normalized = lzt__json_flag(node, "normalized", !special),
                    .lstrip = lzt__json_flag(node, "lstrip", false),
                    .rstrip = lzt__json_flag(node, "rstrip", false),
                    .single_word = lzt__json_flag(node, "single_word", false)};
    return lzt__tokenizer_add(t, &a, content->text, content->size, l->err);
}

static lzt_status added_tokens(loading *l, const lzt__json *list)
{
    if (is_nothing(list)) return LZT_OK;
    if (list->type != LZT__JSON_ARRAY) return malformed(l, "added_tokens is not a list");
    lzt_status s = LZT_OK;
    const lzt__json *c = lzt__json_child(list);
    for (uint32_t i = 0; !s && i < list->size; i++, c = lzt__json_next(c)) s = one_added(l, c);
    return s;
}

static lzt_status put_around(loading *l, bool behind, int64_t id)
{
    lzt_tokenizer *t = l->t;
    uint32_t *count = behind ? &t->after_count : &t->before_count;
    if (*count == 8 || id < 0 || id > INT32_MAX) return malformed(l, "a post-processor's special token");
    (behind ? t->after : t->before)[(*count)++] = (int32_t)id;
    return LZT_OK;
}

static lzt_status template_processing(loading *l, const lzt__json *node)
{
    const lzt__json *single = lzt__json_get(node, "single"), *special = lzt__json_get(node, "special_tokens");
    if (!single || single->type != LZT__JSON_ARRAY) return malformed(l, "a template without its single form");
    bool behind = false;
    lzt_status s = LZT_OK;
    const lzt__json *c = lzt__json_child(single);
    for (uint32_t i = 0; !s && i < single->size; i++, c = lzt__json_next(c)) {
        if (lzt__json_get(c, "Sequence")) {
            behind = true;
            continue;
        }
        const lzt__json *name = lzt__json_get(lzt__json_get(c, "SpecialToken"), "id"), *entry = NULL;
        if (!name || name->type != LZT__JSON_STRING) return malformed(l, "a template's special token");
        const lzt__json *e = special && special->type == LZT__JSON_OBJECT ? lzt__json_child(special) : NULL;
        for (uint32_t k = 0; e && k < special->size; k++, e = lzt__json_next(e))
            if (e->key_size == name->size && !memcmp(e->key, name->text, name->size)) entry = e;
        const lzt__json *ids = lzt__json_get(entry, "ids");
        if (!ids || ids->type != LZT__JSON_ARRAY) return malformed(l, "a template's special token");
        const lzt__json *id = lzt__json_child(ids);
        for (uint32_t k = 0; !s && k < ids->size; k++, id = lzt__json_next(id)) {
            int64_t v = -1;
            lzt__json_integer(id, &v);
            s = put_around(l, behind, v);
        }
    }
    return s;
}

static lzt_status post_processor(loading *l, const lzt__json *node, uint32_t depth)
{
    if (is_nothing(node)) return LZT_OK;
    const lzt__json *type = lzt__json_get(node, "type");
    if (lzt__json_is_string(type, "ByteLevel")) return LZT_OK; /* offsets only */
    if (lzt__json_is_string(type, "TemplateProcessing")) return template_processing(l, node);
    if (!lzt__json_is_string(type, "Sequence") || depth > 3) return refuse(l, "post_processor", type);
    const lzt__json *list = lzt__json_get(node, "processors");
    if (!list || list->type != LZT__JSON_ARRAY) return malformed(l, "a sequence without processors");
    lzt_status s = LZT_OK;
    const lzt__json *c = lzt__json_child(list);
    for (uint32_t i = 0; !s && i < list->size; i++, c = lzt__json_next(c)) s = post_processor(l, c, depth + 1);
    return s;
}

/* A chain of Replace, ByteFallback, Fuse and Strip, as the converters of SentencePiece models write it: each at most
 * once and in this order, Strip of a whole text alone. */
static lzt_status decoder_chain(loading *l, const lzt__json *list)
{
    if (!list || list->type != LZT__JSON_ARRAY) return malformed(l, "a sequence without decoders");
    enum { START, REPLACED, BYTES, FUSED, STRIPPED } done = START;
    l->t->decode = LZT__DECODE_PIECES;
    l->t->keeps_marks = l->t->keeps_bytes = true;
    const lzt__json *c = lzt__json_child(list);
    for (uint32_t i = 0; i < list->size; i++, c = lzt__json_next(c)) {
        const lzt__json *type = lzt__json_get(c, "type");
        int64_t n = 0, stop = 0;
        if (lzt__json_is_string(type, "ByteFallback") && done < BYTES) {
            done = BYTES;
            l->t->keeps_bytes = false;
            continue;
        }
        if (lzt__json_is_string(type, "Fuse") && done < FUSED) {
            done = FUSED;
            continue;
        }
        if (lzt__json_is_string(type, "Replace") && done < REPLACED &&
            lzt__json_is_string(lzt__json_get(c, "content"), " ") &&
            lzt__json_is_string(lzt__json_get(lzt__json_get(c, "pattern"), "String"), "\xe2\x96\x81")) {
            done = REPLACED;
            l->t->keeps_marks = false;
            continue;
        }
        bool strips = lzt__json_is_string(type, "Strip") && lzt__json_is_string(lzt__json_get(c, "content"), " ") &&
                      lzt__json_integer(lzt__json_get(c, "start"), &n) &&
                      lzt__json_integer(lzt__json_get(c, "stop"), &stop);
        if (!strips || done != FUSED || n < 0 || n > 16 || stop) return refuse(l, "decoder", type);
        done = STRIPPED;
        l->t->strip = (uint32_t)n;
    }
    return LZT_OK;
}

static lzt_status decoder(loading *l, const lzt__json *node)
{
    const lzt__json *type = lzt__json_get(node, "type");
    l->t->decode = l->byte_level ? LZT__DECODE_BYTES : LZT__DECODE_WORDS;
    if (is_nothing(node) || (l->byte_level && lzt__json_is_string(type, "ByteLevel"))) return LZT_OK;
    if (!l->byte_level && lzt__json_is_string(type, "Sequence"))
        return decoder_chain(l, lzt__json_get(node, "decoders"));
    if (l->byte_level || !lzt__json_is_string(type, "Metaspace")) return refuse(l, "decoder", type);
    const lzt__json *scheme = lzt__json_get(node, "prepend_scheme"), *mark = lzt__json_get(node, "replacement");
    if (!is_nothing(mark) && !lzt__json_is_string(mark, "\xe2\x96\x81")) return refuse(l, "decoder", type);
    l->t->decode = LZT__DECODE_PIECES;
    l->t->keeps_bytes = true;
    l->t->drops_marks =
        is_nothing(scheme) ? lzt__json_flag(node, "add_prefix_space", true) : !lzt__json_is_string(scheme, "never");
    return LZT_OK;
}

lzt_status lzt__load_tokenizer_json(lzt_tokenizer *t, const char *text, uint64_t size, const char *where,
                                    lzt_error *err)
{
    loading l = {.t = t, .where = where, .err = err};
    uint32_t code[256];
    lzt__byte_spelling(code);
    memset(l.unspell, 0xff, sizeof l.unspell);
    for (int32_t b = 0; b < 256; b++) l.unspell[code[b]] = b;
    lzt__json_doc doc = {0};
    lzt_status s = lzt__json_parse(&doc, text, size, where, err);
    const lzt__json *root = doc.node;
    if (!s && root->type != LZT__JSON_OBJECT) s = malformed(&l, "the file is not an object");
    if (!s) s = normaliser(&l, lzt__json_get(root, "normalizer"), 0);
    if (!s) s = pre_tokenizer(&l, lzt__json_get(root, "pre_tokenizer"), 0);
    if (!s && l.byte_level) s = refuse_insertions(&l);
    if (!s) s = model(&l, lzt__json_get(root, "model"));
    if (!s) s = added_tokens(&l, lzt__json_get(root, "added_tokens"));
    if (!s) s = post_processor(&l, lzt__json_get(root, "post_processor"), 0);
    if (!s) s = decoder(&l, lzt__json_get(root, "decoder"));
    free(l.scratch);
    lzt__json_free(&doc);
    if (s && err && !err->where[0]) snprintf(err->where, sizeof err->where, "%s", where);
    return s;
}
