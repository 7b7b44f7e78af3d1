/* Opening tokenizers, and what can be asked of them. See lazytrain/tokenizer.h. */
#include "data/tokenizer/tokenizer_parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- helpers of the loaders ---- */

void lzt__byte_spelling(uint32_t code[256])
{
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code[b] = printable ? b : next++;
    }
}

lzt_status lzt__tokenizer_split(lzt_tokenizer *t, const char *pattern, uint64_t size, lzt__pattern_syntax syntax,
                                lzt_error *err)
{
    if (t->split_count == LZT__STEPS_MAX)
        return lzt_fail(err, LZT_ERR_DATA, NULL, "more than %d split patterns", LZT__STEPS_MAX);
    lzt_status s = lzt__split_make(t->unicode, pattern, size, syntax, &t->split[t->split_count], err);
    t->split_count += !s;
    return s;
}

lzt_status lzt__tokenizer_add(lzt_tokenizer *t, const lzt__added *added, const char *content, uint32_t size,
                              lzt_error *err)
{
    if (t->added_count == t->added_capacity) {
        uint32_t capacity = t->added_capacity * 2 + 64;
        lzt__added *grown = realloc(t->added, capacity * sizeof *grown);
        if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for added tokens");
        t->added = grown;
        t->added_capacity = capacity;
    }
    char *text = realloc(t->added_text, t->added_text_size + size + 1);
    if (!text) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for added tokens");
    t->added_text = text;
    memcpy(text + t->added_text_size, content, size);
    lzt__added *a = &t->added[t->added_count++];
    *a = *added;
    a->offset = a->match_offset = (uint32_t)t->added_text_size;
    a->size = a->match_size = size;
    t->added_text_size += size;
    return LZT_OK;
}

void lzt__tokenizer_bytes(lzt_tokenizer *t)
{
    for (uint32_t b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte_id[b] = lzt__vocab_find(&t->vocab, &c, 1);
    }
}

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool is_boundary(const char *text, uint32_t at)
{
    return ((unsigned char)text[at] & 0xc0) != 0x80;
}

/* A symbol for text: a piece, or a character that is none. */
static uint32_t symbol_of(const lzt_tokenizer *t, const char *text, uint32_t size)
{
    uint32_t id = lzt__vocab_find(&t->vocab, text, size);
    if (id != LZT__BPE_NONE) return id;
    id = lzt__vocab_find(&t->characters, text, size);
    return id == LZT__BPE_NONE ? id : t->character_base + id;
}

static lzt_status add_characters(lzt_tokenizer *t, lzt_error *err)
{
    t->character_base = t->vocab.id_count;
    for (uint32_t id = 0; id < t->vocab.id_count; id++) {
        if (t->vocab.size[id] == LZT__BPE_NONE || (t->type && t->type[id] != 1)) continue;
        const char *text = t->vocab.text + t->vocab.offset[id];
        for (uint32_t i = 0, n; i < t->vocab.size[id]; i += n) {
            uint32_t code;
            bool fresh;
            n = lzt__utf8_get(text + i, t->vocab.size[id] - i, &code);
            if (!n) return lzt_fail(err, LZT_ERR_DATA, NULL, "piece %u is not UTF-8", id);
            if (lzt__vocab_find(&t->vocab, text + i, n) != LZT__BPE_NONE) continue;
            lzt_status s = lzt__vocab_add(&t->characters, text + i, n, t->characters.id_count, &fresh, err);
            if (s) return s;
        }
    }
    return LZT_OK;
}

lzt_status lzt__tokenizer_score_merges(lzt_tokenizer *t, lzt_error *err)
{
    lzt_status s = add_characters(t, err);
    if (s) return s;
    uint32_t count = 0, rank = 0;
    scored *order = malloc(((uint64_t)t->vocab.id_count + 1) * sizeof *order);
    if (!order) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the merges");
    uint64_t cuts = 0;
    for (uint32_t id = 0; id < t->vocab.id_count; id++) {
        if (t->vocab.size[id] == LZT__BPE_NONE || (t->type && t->type[id] != 1)) continue;
        order[count++] = (scored){t->score[id], id};
        cuts += t->vocab.size[id];
    }
    qsort(order, count, sizeof *order, by_score);
    s = lzt__bpe_init(&t->bpe, cuts + 1, err);
    for (uint32_t i = 0; !s && i < count; i++) {
        const char *text = t->vocab.text + t->vocab.offset[order[i].id];
        uint32_t size = t->vocab.size[order[i].id];
        if (i && order[i].score != order[i - 1].score) rank++;
        for (uint32_t at = 1; at < size; at++) {
            if (!is_boundary(text, at)) continue;
            uint32_t left = symbol_of(t, text, at), right = symbol_of(t, text + at, size - at);
            if (left != LZT__BPE_NONE && right != LZT__BPE_NONE) lzt__bpe_add(&t->bpe, left, right, rank, order[i].id);
        }
    }
    free(order);
    return s;
}

/* ---- the matcher of added tokens ---- */

lzt_status lzt__matcher_make(const lzt_tokenizer *t, bool normalised, lzt__matcher *m, lzt_error *err)
{
    m->order = malloc(((uint64_t)t->added_count + 1) * sizeof *m->order);
    if (!m->order) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for added tokens");
    m->count = 0;
    for (uint32_t b = 0; b < 256; b++) {
        m->begin[b] = m->count;
        for (uint32_t i = 0; i < t->added_count; i++) {
            const lzt__added *a = &t->added[i];
            const unsigned char *text = (const unsigned char *)t->added_text + a->match_offset;
            uint32_t size = a->match_size;
            if (a->normalized != normalised || !size || text[0] != b) continue;
            uint32_t at = m->count++;
            for (; at > m->begin[b] && t->added[m->order[at - 1]].match_size < size; at--)
                m->order[at] = m->order[at - 1];
            m->order[at] = i;
            m->first[b] = 1;
            for (uint32_t c = size > 1 ? text[1] : 0; c <= (size > 1 ? text[1] : 255u); c++)
                m->prefix[(b << 8 | c) / 8] |= (uint8_t)(1u << c % 8);
        }
    }
    m->begin[256] = m->count;
    return LZT_OK;
}

static bool is_allowed(const uint8_t *writer, const uint32_t *origin, uint64_t at, uint32_t size)
{
    for (uint32_t i = 0; writer && i < size; i++)
        if (!writer[origin ? origin[at + i] : at + i]) return false;
    return true;
}

const lzt__added *lzt__matcher_at(const lzt_tokenizer *t, const lzt__matcher *m, const char *text, uint64_t size,
                                  uint64_t at, const uint8_t *writer, const uint32_t *origin)
{
    const unsigned char *x = (const unsigned char *)text + at;
    if (!m->first[x[0]]) return NULL;
    uint32_t pair = (uint32_t)x[0] << 8 | (at + 1 < size ? x[1] : 0u);
    if (at + 1 < size && !(m->prefix[pair / 8] >> pair % 8 & 1)) return NULL;
    for (uint32_t i = m->begin[x[0]]; i < m->begin[x[0] + 1u]; i++) {
        const lzt__added *a = &t->added[m->order[i]];
        if (a->match_size <= size - at && !memcmp(t->added_text + a->match_offset, x, a->match_size) &&
            is_allowed(writer, origin, at, a->match_size))
            return a;
    }
    return NULL;
}

/* ---- opening ---- */

static lzt_status read_file(const char *path, char **text, uint64_t *size, lzt_error *err)
{
    *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return lzt_fail_os(err, LZT_ERR_DATA, errno, path, "cannot open the tokenizer");
    struct stat st;
    lzt_status s = LZT_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) s = lzt_fail(err, LZT_ERR_DATA, path, "not a regular file");
    if (!s && st.st_size > INT32_MAX) s = lzt_fail(err, LZT_ERR_DATA, path, "a tokenizer above 2 GiB");
    if (!s && !(*text = malloc((uint64_t)st.st_size + 1)))
        s = lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the tokenizer");
    uint64_t done = 0;
    while (!s && done < (uint64_t)st.st_size) {
        ssize_t n = read(fd, *text + done, (uint64_t)st.st_size - done);
        if (n > 0)
            done += (uint64_t)n;
        else if (n == 0)
            break;
        else if (errno != EINTR)
            s = lzt_fail_os(err, LZT_ERR_STORAGE, errno, path, "cannot read the tokenizer");
    }
    close(fd);
    if (!s) (*text)[done] = 0;
    *size = done;
    if (s) {
        free(*text);
        *text = NULL;
    }
    return s;
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

void lzt__tokenizer_note(lzt_tokenizer *t, const char *text, uint64_t size)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(text, size, t->fingerprint[0]);
    t->fingerprint[0] = hash.low64;
    t->fingerprint[1] = (t->fingerprint[1] << 1 | t->fingerprint[1] >> 63) ^ hash.high64;
}

/* The loader by the file's name and first bytes. */
static lzt_status load_file(lzt_tokenizer *t, const char *path, const char *pattern, lzt_error *err)
{
    char *text;
    uint64_t size;
    lzt_status s = read_file(path, &text, &size, err);
    if (s) return s;
    lzt__tokenizer_note(t, text, size);
    if (pattern) lzt__tokenizer_note(t, pattern, strlen(pattern));
    if (ends_with(path, ".json"))
        s = lzt__load_tokenizer_json(t, text, size, path, err);
    else if (ends_with(path, ".model"))
        s = lzt__load_sentencepiece(t, text, size, path, err);
    else if (ends_with(path, ".tiktoken") || pattern)
        s = lzt__load_ranks(t, text, size, pattern, path, err);
    else if (ends_with(path, ".bin"))
        s = lzt__load_llama2c(t, text, size, path, err);
    else {
        s = lzt_fail(err, LZT_ERR_DATA, path, "not a tokenizer that is known by its name");
        lzt_hint(err, "tokenizer.json, vocab.json with merges.txt, *.model, *.tiktoken, or a rank file with --pattern");
    }
    free(text);
    return s;
}

static bool exists(const char *directory, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", directory, name);
    return !access(path, R_OK);
}

static lzt_status load_directory(lzt_tokenizer *t, const char *directory, const char *pattern, lzt_error *err)
{
    char path[4096], merges[4096];
    if (exists(directory, "tokenizer.json", path, sizeof path)) return load_file(t, path, pattern, err);
    if (exists(directory, "tokenizer.model", path, sizeof path)) return load_file(t, path, pattern, err);
    if (exists(directory, "vocab.json", path, sizeof path) && exists(directory, "merges.txt", merges, sizeof merges))
        return lzt__load_vocab_merges(t, path, merges, err);
    if (exists(directory, "tok512.bin", path, sizeof path)) return load_file(t, path, pattern, err);
    lzt_fail(err, LZT_ERR_DATA, directory, "the directory holds no tokenizer");
    return lzt_hint(err, "it needs tokenizer.json, tokenizer.model, vocab.json and merges.txt, or tok512.bin");
}

bool lzt_tokenizer_present(const char *directory)
{
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "vocab.json", "tok512.bin"};
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (exists(directory, files[i], path, sizeof path)) return true;
    return false;
}

static lzt_status load_named(lzt_tokenizer *t, const char *path, const char *pattern, lzt_error *err)
{
    char other[4096];
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return load_directory(t, path, pattern, err);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int folder = slash ? (int)(slash - path) : 1;
    const char *parent = slash ? path : ".";
    if (ends_with(name, "vocab.json") || ends_with(name, "merges.txt")) {
        /* one of a pair; a prefix of the name, as in tiny_bpe_vocab.json, is the pair's */
        char vocab[4096];
        int prefix = (int)(strlen(name) - strlen("vocab.json")); /* both endings have ten letters */
        snprintf(vocab, sizeof vocab, "%.*s/%.*svocab.json", folder, parent, prefix, name);
        snprintf(other, sizeof other, "%.*s/%.*smerges.txt", folder, parent, prefix, name);
        return lzt__load_vocab_merges(t, vocab, other, err);
    }
    return load_file(t, path, pattern, err);
}

/* ---- tokenizer_config.json ---- */

/* A token is a string, or an object with its content. */
static int32_t configured(const lzt_tokenizer *t, const lzt__json *config, const char *key)
{
    const lzt__json *m = lzt__json_get(config, key);
    if (m && m->type == LZT__JSON_OBJECT) m = lzt__json_get(m, "content");
    return m && m->type == LZT__JSON_STRING ? lzt_tokenizer_id(t, m->text, m->size) : -1;
}

static lzt_status load_config(lzt_tokenizer *t, const char *path, lzt_error *err)
{
    char name[4096];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        snprintf(name, sizeof name, "%s/tokenizer_config.json", path);
    else
        snprintf(name, sizeof name, "%.*s/tokenizer_config.json", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (access(name, R_OK)) return LZT_OK;
    char *text;
    uint64_t size;
    lzt_status s = read_file(name, &text, &size, err);
    lzt__json_doc doc = {0};
    if (!s) lzt__tokenizer_note(t, text, size);
    if (!s) s = lzt__json_parse(&doc, text, size, name, err);
    if (!s) {
        int32_t bos = configured(t, doc.node, "bos_token"), eos = configured(t, doc.node, "eos_token"),
                pad = configured(t, doc.node, "pad_token");
        if (bos >= 0) t->bos = bos;
        if (eos >= 0) t->eos = eos;
        if (pad >= 0) t->pad = pad;
    }
    lzt__json_free(&doc);
    free(text);
    return s;
}

/* Added tokens that match normalised text are looked for in their own normal form, as the reference does. */
static lzt_status normalise_added(lzt_tokenizer *t, lzt_error *err)
{
    lzt__split_scratch scratch = {0};
    lzt__traced one = {0}, two = {0}, *from = &one, *to = &two;
    lzt_status s = LZT_OK;
    for (uint32_t i = 0; !s && t->norm_count && t->model <= LZT__MODEL_CHARACTERS && i < t->added_count; i++) {
        lzt__added *a = &t->added[i];
        if (!a->normalized) continue;
        s = lzt__traced_reserve(from, a->size + 1, err);
        if (s) break;
        memcpy(from->bytes, t->added_text + a->offset, a->size);
        for (uint32_t k = 0; k <= a->size; k++) from->origin[k] = k;
        from->size = a->size;
        s = lzt__normalise(t, &scratch, &from, &to, err);
        char *text = s ? NULL : realloc(t->added_text, t->added_text_size + from->size + 1);
        if (!s && !text) s = lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for added tokens");
        if (s) break;
        t->added_text = text;
        memcpy(text + t->added_text_size, from->bytes, from->size);
        a->match_offset = (uint32_t)t->added_text_size;
        a->match_size = (uint32_t)from->size;
        t->added_text_size += from->size;
    }
    lzt__split_scratch_free(&scratch);
    lzt__traced_free(&one);
    lzt__traced_free(&two);
    return s;
}

static lzt_status finish(lzt_tokenizer *t, lzt_error *err)
{
    t->size = t->vocab.id_count;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id >= t->size) t->size = t->added[i].id + 1;
    if (!t->size) return lzt_fail(err, LZT_ERR_DATA, NULL, "the vocabulary is empty");
    t->is_added = calloc(t->size / 8 + 1, 1);
    if (!t->is_added) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    for (uint32_t i = 0; i < t->added_count; i++)
        t->is_added[t->added[i].id / 8] |= (uint8_t)(1u << t->added[i].id % 8);
    lzt_status s = normalise_added(t, err);
    if (!s) s = lzt__matcher_make(t, false, &t->raw, err);
    return s ? s : lzt__matcher_make(t, true, &t->normalised, err);
}

lzt_status lzt_tokenizer_open(const char *path, const lzt_tokenizer_options *options, lzt_tokenizer **tokenizer,
                              lzt_error *err)
{
    *tokenizer = NULL;
    if (options && options->struct_bytes != sizeof *options)
        return lzt_fail(err, LZT_ERR_USAGE, "tokenizer", "options of another version");
    lzt_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a tokenizer");
    t->bos = t->eos = t->pad = -1;
    t->unk = LZT__BPE_NONE;
    lzt_status s = lzt__unicode_create(&t->unicode, err);
    if (!s) s = load_named(t, path, options ? options->pattern : NULL, err);
    if (!s) s = finish(t, err);
    if (!s) s = load_config(t, path, err);
    if (s) {
        if (err && !err->where[0]) snprintf(err->where, sizeof err->where, "%s", path);
        lzt_tokenizer_close(t);
        return s;
    }
    *tokenizer = t;
    return LZT_OK;
}

void lzt_tokenizer_close(lzt_tokenizer *t)
{
    if (!t) return;
    lzt__unicode_destroy(t->unicode);
    lzt__vocab_free(&t->vocab);
    lzt__vocab_free(&t->characters);
    lzt__bpe_free(&t->bpe);
    for (uint32_t i = 0; i < t->split_count; i++) lzt__split_free(&t->split[i]);
    for (uint32_t i = 0; i < t->norm_count; i++) {
        free(t->norm[i].a);
        free(t->norm[i].b);
        lzt__regex_free(t->norm[i].regex);
    }
    free(t->score);
    free(t->type);
    free(t->charsmap.trie);
    free(t->charsmap.target);
    free(t->added);
    free(t->is_added);
    free(t->added_text);
    free(t->raw.order);
    free(t->normalised.order);
    free(t);
}

uint32_t lzt_tokenizer_size(const lzt_tokenizer *t)
{
    return t->size;
}

int32_t lzt_tokenizer_bos(const lzt_tokenizer *t)
{
    return t->bos;
}

int32_t lzt_tokenizer_eos(const lzt_tokenizer *t)
{
    return t->eos;
}

int32_t lzt_tokenizer_pad(const lzt_tokenizer *t)
{
    return t->pad;
}

int32_t lzt_tokenizer_id(const lzt_tokenizer *t, const char *text, uint64_t size)
{
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].size == size && !memcmp(t->added_text + t->added[i].offset, text, size))
            return (int32_t)t->added[i].id;
    uint32_t id = lzt__vocab_find(&t->vocab, text, size);
    return id == LZT__BPE_NONE ? -1 : (int32_t)id;
}

static const lzt__added *added_of(const lzt_tokenizer *t, int32_t id)
{
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == (uint32_t)id) return &t->added[i];
    return NULL;
}

const char *lzt_tokenizer_bytes(const lzt_tokenizer *t, int32_t id, uint64_t *size)
{
    *size = 0;
    if (id < 0 || (uint32_t)id >= t->size) return NULL;
    if ((uint32_t)id < t->vocab.id_count && t->vocab.size[id] != LZT__BPE_NONE) {
        *size = t->vocab.size[id];
        return t->vocab.text + t->vocab.offset[id];
    }
    const lzt__added *a = added_of(t, id);
    if (a) *size = a->size;
    return a ? t->added_text + a->offset : NULL;
}

bool lzt_tokenizer_is_added(const lzt_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->size && (t->is_added[id / 8] >> id % 8 & 1);
}

bool lzt_tokenizer_is_special(const lzt_tokenizer *t, int32_t id)
{
    const lzt__added *a = lzt_tokenizer_is_added(t, id) ? added_of(t, id) : NULL;
    return a ? a->special : t->type && id >= 0 && (uint32_t)id < t->vocab.id_count && t->type[id] == 3;
}

bool lzt__tokenizer_closes_text(const lzt_tokenizer *t)
{
    return !t->never_closes;
}

bool lzt__tokenizer_spells_control(const lzt_tokenizer *t, const char *text, uint64_t size, const uint8_t *writer)
{
    for (uint64_t i = 0; t->raw.count && i < size; i++) {
        if (!t->raw.first[(unsigned char)text[i]]) continue;
        const lzt__added *a = lzt__matcher_at(t, &t->raw, text, size, i, NULL, NULL);
        bool theirs = !writer;
        for (uint32_t k = 0; a && !theirs && k < a->size; k++) theirs = !writer[i + k];
        if (a && a->special && theirs) return true;
    }
    return false;
}
