/* The plain formats: GPT-2's vocab.json + merges.txt, tiktoken's ranks, llama2.c's tok*.bin. */
#include "data/tokenizer/tokenizer_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lzt_status slurp(const char *path, char **text, uint64_t *size, lzt_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return lzt_fail_os(err, LZT_ERR_DATA, errno, path, "cannot open the tokenizer");
    *text = NULL;
    *size = 0;
    for (uint64_t capacity = 1 << 20;; capacity *= 2) {
        char *grown = realloc(*text, capacity + 1);
        if (!grown) break;
        *text = grown;
        *size += fread(grown + *size, 1, capacity - *size, f);
        if (*size == capacity) continue;
        bool bad = ferror(f);
        fclose(f);
        grown[*size] = 0;
        return bad ? lzt_fail(err, LZT_ERR_STORAGE, path, "cannot read the tokenizer") : LZT_OK;
    }
    fclose(f);
    return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the tokenizer");
}

/* ---- vocab.json + merges.txt: written as the tokenizer.json they mean, and read as that ---- */

typedef struct writing {
    char *text;
    uint64_t size, capacity;
    bool failed;
} writing;

static void write_bytes(writing *w, const char *bytes, uint64_t size)
{
    if (w->failed) return;
    if (w->capacity - w->size < size + 1) {
        uint64_t capacity = 2 * w->capacity + size + 4096;
        char *text = realloc(w->text, capacity);
        if (!text) {
            w->failed = true;
            return;
        }
        w->text = text;
        w->capacity = capacity;
    }
    memcpy(w->text + w->size, bytes, size);
    w->size += size;
    w->text[w->size] = 0;
}

static void write_text(writing *w, const char *text)
{
    write_bytes(w, text, strlen(text));
}

static void write_quoted(writing *w, const char *text, uint64_t size)
{
    write_text(w, "\"");
    for (uint64_t i = 0; i < size; i++) {
        if (text[i] == '"' || text[i] == '\\') write_text(w, "\\");
        write_bytes(w, text + i, 1);
    }
    write_text(w, "\"");
}

/* The merges: a line each, a #version line is not one. */
static lzt_status write_merges(writing *w, const char *text, uint64_t size, const char *path, lzt_error *err)
{
    bool any = false;
    uint64_t line = 1;
    for (uint64_t at = 0; at < size; line++) {
        const char *newline = memchr(text + at, '\n', size - at);
        uint64_t end = newline ? (uint64_t)(newline - text) : size, next = end + 1;
        while (end > at && text[end - 1] == '\r') end--;
        bool version = line == 1 && end - at >= 8 && !memcmp(text + at, "#version", 8);
        if (end > at && !version) {
            const char *space = memchr(text + at, ' ', end - at);
            if (!space || memchr(space + 1, ' ', (uint64_t)(text + end - space - 1)))
                return lzt_fail(err, LZT_ERR_DATA, path, "line %llu is not a merge of two tokens",
                                (unsigned long long)line);
            if (any) write_text(w, ",");
            write_quoted(w, text + at, end - at);
            any = true;
        }
        at = next;
    }
    return LZT_OK;
}

lzt_status lzt__load_vocab_merges(lzt_tokenizer *t, const char *vocab_path, const char *merges_path, lzt_error *err)
{
    char *vocab = NULL, *merges = NULL, tail[512];
    uint64_t vocab_size = 0, merges_size = 0;
    writing w = {0};
    lzt__json_doc doc = {0};
    lzt_status s = slurp(vocab_path, &vocab, &vocab_size, err);
    if (!s) s = slurp(merges_path, &merges, &merges_size, err);
    if (!s) s = lzt__json_parse(&doc, vocab, vocab_size, vocab_path, err);
    if (s) goto out;
    lzt__tokenizer_note(t, vocab, vocab_size);
    lzt__tokenizer_note(t, merges, merges_size);
    int64_t end = -1;
    lzt__json_integer(lzt__json_get(doc.node, "<|endoftext|>"), &end);
    if (end < 0) end = doc.node->size; /* as the reference adds it: behind the vocabulary */
    write_text(&w, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
                   "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":");
    write_bytes(&w, vocab, vocab_size);
    write_text(&w, ",\"merges\":[");
    s = write_merges(&w, merges, merges_size, merges_path, err);
    if (s) goto out;
    snprintf(tail, sizeof tail,
             "]},\"added_tokens\":[{\"id\":%lld,\"content\":\"<|endoftext|>\",\"special\":true,\"normalized\":false}]}",
             (long long)end);
    write_text(&w, tail);
    s = w.failed ? lzt_fail(err, LZT_ERR_NO_MEMORY, vocab_path, "no memory for the tokenizer")
                 : lzt__load_tokenizer_json(t, w.text, w.size, vocab_path, err);
    t->bos = t->eos = (int32_t)end;
out:
    lzt__json_free(&doc);
    free(vocab);
    free(merges);
    free(w.text);
    return s;
}

/* ---- tiktoken: base64 of the token's bytes, a space, its rank ---- */

static int64_t base64(const char *text, uint64_t size, char *out, uint64_t room)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, held = 0;
    uint64_t used = 0;
    while (size && text[size - 1] == '=') size--;
    for (uint64_t i = 0; i < size; i++) {
        const char *d = text[i] ? strchr(digits, text[i]) : NULL;
        if (!d) return -1;
        bits = bits << 6 | (uint32_t)(d - digits);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        if (used == room) return -1;
        out[used++] = (char)(bits >> held);
    }
    return (int64_t)used;
}

static lzt_status read_ranks(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    uint64_t line = 1;
    char bytes[4096];
    for (uint64_t at = 0; at < size; line++) {
        const char *newline = memchr(text + at, '\n', size - at);
        uint64_t end = newline ? (uint64_t)(newline - text) : size;
        const char *space = memchr(text + at, ' ', end - at);
        if (end > at && text[at] != '\r') {
            int64_t n = space ? base64(text + at, (uint64_t)(space - text) - at, bytes, sizeof bytes) : -1;
            char *stop = NULL;
            unsigned long rank = space ? strtoul(space + 1, &stop, 10) : 0;
            bool fresh = true;
            if (n <= 0 || stop == space + 1 || rank >= LZT__ID_LIMIT)
                return lzt_fail(err, LZT_ERR_DATA, where, "line %llu is not a token in base64 and its rank",
                                (unsigned long long)line);
            lzt_status s = lzt__vocab_add(&t->vocab, bytes, (uint32_t)n, (uint32_t)rank, &fresh, err);
            if (s) return s;
            if (!fresh)
                return lzt_fail(err, LZT_ERR_DATA, where, "the token or rank at line %llu is there twice",
                                (unsigned long long)line);
        }
        at = end + 1;
    }
    return LZT_OK;
}

/* Ranks are ids: a pair merges to whatever token its bytes make, the lowest rank first. So every cut of every token
 * into two tokens is a merge with the token's rank. */
static lzt_status rank_merges(lzt_tokenizer *t, lzt_error *err)
{
    const lzt__vocab *v = &t->vocab;
    uint64_t cuts = 0;
    for (uint32_t id = 0; id < v->id_count; id++) cuts += v->size[id] == LZT__BPE_NONE ? 0 : v->size[id];
    lzt_status s = lzt__bpe_init(&t->bpe, cuts + 1, err);
    for (uint32_t id = 0; !s && id < v->id_count; id++) {
        if (v->size[id] == LZT__BPE_NONE) continue;
        const char *text = v->text + v->offset[id];
        for (uint32_t at = 1; at < v->size[id]; at++) {
            uint32_t left = lzt__vocab_find(v, text, at), right = lzt__vocab_find(v, text + at, v->size[id] - at);
            if (left != LZT__BPE_NONE && right != LZT__BPE_NONE) lzt__bpe_add(&t->bpe, left, right, id, id);
        }
    }
    return s;
}

lzt_status lzt__load_ranks(lzt_tokenizer *t, const char *text, uint64_t size, const char *pattern, const char *where,
                           lzt_error *err)
{
    if (!pattern) {
        lzt_fail(err, LZT_ERR_USAGE, where, "a rank file does not say how it splits text");
        return lzt_hint(err, "give its pattern: --pattern REGEX");
    }
    lzt_status s = read_ranks(t, text, size, where, err);
    if (!s) s = rank_merges(t, err);
    if (!s) s = lzt__tokenizer_split(t, pattern, strlen(pattern), LZT__PATTERN_PERL, err);
    if (s) return s;
    t->model = LZT__MODEL_BYTES;
    t->ignore_merges = true;
    lzt__tokenizer_bytes(t);
    for (uint32_t b = 0; b < 256; b++)
        if (t->byte_id[b] == LZT__BPE_NONE) return lzt_fail(err, LZT_ERR_DATA, where, "byte %u has no rank", b);
    return LZT_OK;
}

/* ---- llama2.c: int32 longest, then float score, int32 size, bytes; 0 unk, 1 BOS, 2 EOS, 3.. bytes ---- */

lzt_status lzt__load_llama2c(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err)
{
    uint32_t id = 0;
    uint64_t at = 4;
    t->score = malloc((size / 8 + 1) * sizeof *t->score);
    t->type = calloc(size / 8 + 1, 1);
    if (!t->score || !t->type) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the tokenizer");
    for (; at < size; id++) {
        int32_t n = -1;
        if (size - at >= 8) {
            memcpy(&t->score[id], text + at, 4);
            memcpy(&n, text + at + 4, 4);
        }
        at += 8;
        if (n < 0 || at > size || (uint64_t)n > size - at || t->score[id] != t->score[id])
            return lzt_fail(err, LZT_ERR_DATA, where, "token %u of the tokenizer is cut or broken", id);
        bool fresh;
        char name[16]; /* the bytes' own tokens (3 ..) and <s> must not be found as text: they get names of their own */
        bool control = id < 259;
        if (control) snprintf(name, sizeof name, "\xff%u", id);
        lzt_status s = lzt__vocab_add(&t->vocab, control ? name : text + at,
                                      control ? (uint32_t)strlen(name) : (uint32_t)n, id, &fresh, err);
        if (s) return s;
        t->type[id] = id < 3 ? 3 : id < 259 ? 6 : 1;
        if (!fresh) return lzt_fail(err, LZT_ERR_DATA, where, "token %u is there twice", id);
        at += (uint64_t)n;
    }
    if (id < 260) return lzt_fail(err, LZT_ERR_DATA, where, "the tokenizer has %u tokens, fewer than its bytes", id);
    for (uint32_t b = 0; b < 256; b++) t->byte_id[b] = b + 3;
    t->model = LZT__MODEL_PIECES;
    t->byte_fallback = true;
    t->unk = 0;
    t->norm[t->norm_count++] = (lzt__norm){.kind = LZT__NORM_PREPEND, .a = strdup(" "), .a_size = 1};
    if (!t->norm[0].a) return lzt_fail(err, LZT_ERR_NO_MEMORY, where, "no memory for the tokenizer");
    t->bos = 1;
    t->eos = 2;
    t->before[t->before_count++] = 1;
    t->never_closes = true;
    t->decode = LZT__DECODE_PIECES;
    t->strip = 1;
    return lzt__tokenizer_score_merges(t, err);
}
