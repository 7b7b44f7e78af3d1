/* Goal: every vector of the data directory whose tokenizer stands there comes out equal, and decodes back.
 * Method: kitoken's cases (a line a case, backslash-n and backslash-s spelled out; the third file one case),
 * llama.cpp's .inp/.out pairs, llama2.c's golden encodings. Skips, saying so, where the directory is not there. */
#include "base/jsontree.h"
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *root;

static char *read_file(const char *name, uint64_t *size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is not there", path);
    char *text = malloc(1 << 22);
    *size = fread(text, 1, (1 << 22) - 1, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

typedef struct fixture {
    lzt_tokenizer *t;
    lzt_encoder *e;
    const char *name;
    int cases;
} fixture;

static fixture open_at(const char *name, const char *pattern)
{
    char path[4096];
    fixture f = {.name = name};
    lzt_error err;
    snprintf(path, sizeof path, "%s/%s", root, name);
    lzt_tokenizer_options o = LZT_TOKENIZER_OPTIONS_INIT;
    o.pattern = pattern;
    if (lzt_tokenizer_open(path, &o, &f.t, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(lzt_encoder_create(f.t, &f.e, &err), 0);
    return f;
}

static void close_it(fixture *f)
{
    lzt_encoder_destroy(f->e);
    lzt_tokenizer_close(f->t);
}

/* ids: numbers with anything between them */
static void same(fixture *f, const char *text, uint64_t size, const char *ids, uint32_t flags)
{
    lzt_encoding e;
    lzt_error err;
    if (lzt_encoder_encode(f->e, text, size, NULL, flags, &e, &err)) fail_msg("%s: %s", f->name, err.message);
    uint64_t i = 0;
    for (const char *at = ids; *at;) {
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        char *end;
        long id = strtol(at, &end, 10);
        if (i >= e.count || e.ids[i] != id)
            fail_msg("%s: case %d, token %llu of \"%.60s\": %ld wanted, %d found", f->name, f->cases,
                     (unsigned long long)i, text, id, i < e.count ? e.ids[i] : -1);
        i++;
        at = end;
    }
    assert_int_equal(i, e.count);
    for (uint64_t k = 1; k < e.count; k++) assert_true(e.begin[k] >= e.begin[k - 1] && e.begin[k] <= size);
    f->cases++;
}

static void decodes_back(fixture *f, const char *text, uint64_t size)
{
    lzt_encoding e;
    lzt_error err;
    char *back;
    uint64_t n;
    assert_int_equal(lzt_encoder_encode(f->e, text, size, NULL, LZT_ENCODE_ADDED, &e, &err), 0);
    assert_int_equal(lzt_tokenizer_decode(f->t, e.ids, e.count, false, &back, &n, &err), 0);
    if (n != size || memcmp(back, text, size)) fail_msg("%s: \"%s\" decodes to \"%s\"", f->name, text, back);
    free(back);
}

static uint64_t unescape(char *line)
{
    char *to = line;
    for (char *from = line; *from; from++) {
        if (from[0] == '\\' && (from[1] == 'n' || from[1] == 's'))
            *to++ = *++from == 'n' ? '\n' : ' ';
        else
            *to++ = *from;
    }
    *to = 0;
    return (uint64_t)(to - line);
}

static void kitoken(fixture *f, const char *folder, const char *suffix, bool back, uint32_t flags)
{
    static const char *const kind[] = {"small", "mixed", "utf8"};
    for (int k = 0; k < 3; k++) {
        char name[256];
        uint64_t size, ids_size;
        snprintf(name, sizeof name, "tokenizers/vectors/%s_input.txt", kind[k]);
        char *input = read_file(name, &size), *a = input, *b;
        snprintf(name, sizeof name, "tokenizers/%s/%s_tokens_%s.txt", folder, kind[k], suffix);
        char *ids = b = read_file(name, &ids_size);
        if (k == 2) same(f, input, size, ids, flags);
        while (k < 2 && *a) {
            char *a_end = strchr(a, '\n'), *b_end = strchr(b, '\n');
            if (a_end) *a_end = 0;
            if (b_end) *b_end = 0;
            uint64_t n = strlen(a), m = unescape(a);
            same(f, a, m, b, flags);
            if (back) decodes_back(f, a, m);
            a += a_end ? n + 1 : n;
            if (!b_end) break;
            b = b_end + 1;
        }
        free(input);
        free(ids);
    }
}

static void llama_cpp(fixture *f, const char *stem)
{
    char name[256];
    uint64_t size, ids_size;
    snprintf(name, sizeof name, "tokenizers/%s.inp", stem);
    char *input = read_file(name, &size), *a = input;
    snprintf(name, sizeof name, "tokenizers/%s.out", stem);
    char *ids = read_file(name, &ids_size), *b = ids;
    static const char border[] = "\n__ggml_vocab_test__\n";
    while (a) {
        char *a_end = strstr(a, border), *b_end = strchr(b, '\n');
        if (b_end) *b_end = 0;
        uint64_t n = a_end ? (uint64_t)(a_end - a) : strlen(a);
        char *text = strndup(a, n);
        if (a_end || n) same(f, text, n, b, LZT_ENCODE_ADDED);
        free(text);
        a = a_end ? a_end + sizeof border - 1 : NULL;
        if (b_end) b = b_end + 1;
    }
    free(input);
    free(ids);
}

static void gpt2(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/gpt2", NULL);
    kitoken(&f, "gpt2", "gpt2", true, LZT_ENCODE_ADDED);
    llama_cpp(&f, "gpt2/ggml-vocab-gpt-2.gguf");
    assert_true(f.cases >= 141 + 46);
    close_it(&f);
}

static void qwen3(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/qwen3", NULL);
    llama_cpp(&f, "qwen3/ggml-vocab-qwen2.gguf");
    assert_true(f.cases >= 46);
    assert_int_equal(lzt_tokenizer_eos(f.t), 151645);
    assert_int_equal(lzt_tokenizer_size(f.t), 151669);
    close_it(&f);
}

#define CL100K                                                                                                         \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|"      \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
#define LLAMA3                                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static void ranks(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/llama3/tokenizer_llama3.tiktoken", LLAMA3);
    kitoken(&f, "llama3", "llama32", true, LZT_ENCODE_ADDED);
    llama_cpp(&f, "llama3/ggml-vocab-llama-bpe.gguf");
    close_it(&f);
}

/* cl100k counts <|endoftext|> as a control token, which a rank file does not hold: those cases are left out. */
static void cl100k(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/cl100k/cl100k_base.tiktoken", CL100K);
    uint64_t size, ids_size;
    for (int k = 0; k < 2; k++) {
        char *input = read_file(k ? "tokenizers/vectors/mixed_input.txt" : "tokenizers/vectors/small_input.txt", &size);
        char *ids = read_file(k ? "tokenizers/cl100k/mixed_tokens_cl100k_base.txt"
                                : "tokenizers/cl100k/small_tokens_cl100k_base.txt",
                              &ids_size);
        char *a_next = NULL, *b_next = NULL, *a = strtok_r(input, "\n", &a_next), *b = strtok_r(ids, "\n", &b_next);
        for (; a && b; a = strtok_r(NULL, "\n", &a_next), b = strtok_r(NULL, "\n", &b_next)) {
            uint64_t n = unescape(a);
            if (!strstr(a, "<|endoftext|>")) same(&f, a, n, b, LZT_ENCODE_ADDED);
        }
        free(input);
        free(ids);
    }
    assert_true(f.cases >= 130);
    close_it(&f);
}

static void mistral(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/mistral-spm/tokenizer.model", NULL);
    kitoken(&f, "mistral-spm", "mistral01", false, LZT_ENCODE_ADDED);
    close_it(&f);
}

static void stories(void **state)
{
    (void)state;
    fixture f = open_at("models/stories260k/tok512.bin", NULL);
    uint64_t size;
    char *text = read_file("models/stories260k/golden.json", &size);
    lzt__json_doc doc = {0};
    assert_int_equal(lzt__json_parse(&doc, text, size, NULL, NULL), 0);
    const lzt__json *list = lzt__json_get(doc.node, "encode"), *c = lzt__json_child(list);
    for (uint32_t i = 0; i < list->size; i++, c = lzt__json_next(c)) {
        const lzt__json *t = lzt__json_get(c, "text"), *ids = lzt__json_get(c, "ids"), *id = lzt__json_child(ids);
        char wanted[4096] = "";
        for (uint32_t k = 0; k < ids->size; k++, id = lzt__json_next(id))
            snprintf(wanted + strlen(wanted), 16, "%.*s ", (int)id->size, id->text);
        same(&f, t->text, t->size, wanted, LZT_ENCODE_ADDED | LZT_ENCODE_SPECIAL);
        decodes_back(&f, t->text, t->size);
    }
    assert_int_equal(f.cases, 4);
    lzt__json_free(&doc);
    free(text);
    close_it(&f);
}

static void tiny(void **state)
{
    (void)state;
    fixture a = open_at("tokenizers/tiny-bpe/tiny_bpe_tokenizer.json", NULL),
            b = open_at("tokenizers/tiny-bpe/tiny_bpe_vocab.json", NULL);
    const char text[] = "Once upon a time<|endoftext|> there was";
    lzt_encoding x, y;
    assert_int_equal(lzt_encoder_encode(a.e, text, sizeof text - 1, NULL, LZT_ENCODE_ADDED, &x, NULL), 0);
    assert_int_equal(lzt_encoder_encode(b.e, text, sizeof text - 1, NULL, LZT_ENCODE_ADDED, &y, NULL), 0);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.ids, y.ids, x.count * sizeof *x.ids);
    close_it(&a);
    close_it(&b);
}

/* Bytes that a template wrote may be control tokens, the same bytes from a user are text (bug log, D5). */
static void written(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/qwen3", NULL);
    const char text[] = "<|im_start|>a<|im_end|>";
    uint8_t writer[sizeof text - 1];
    memset(writer, 1, 12);
    memset(writer + 12, 0, sizeof writer - 12);
    lzt_encoding e;
    assert_int_equal(lzt_encoder_encode(f.e, text, sizeof text - 1, writer, LZT_ENCODE_ADDED, &e, NULL), 0);
    assert_int_equal(e.ids[0], 151644);
    for (uint64_t i = 1; i < e.count; i++) assert_true(e.ids[i] < 151643);
    assert_int_equal(e.begin[1], 12);
    close_it(&f);
}

/* A decoder gives nothing of a character before all of its bytes are there. */
static void held_back(void **state)
{
    (void)state;
    fixture f = open_at("tokenizers/qwen3", NULL);
    const char text[] = "x\xf0\x9f\xab\xa8y";
    lzt_encoding e;
    lzt_decoder *d;
    lzt_error err;
    char got[64] = "";
    assert_int_equal(lzt_encoder_encode(f.e, text, sizeof text - 1, NULL, 0, &e, NULL), 0);
    assert_true(e.count > 3);
    assert_int_equal(lzt_decoder_create(f.t, true, &d, &err), 0);
    for (uint64_t i = 0; i < e.count; i++) {
        const char *part;
        uint64_t size;
        uint32_t code;
        assert_int_equal(lzt_decoder_push(d, e.ids[i], &part, &size, &err), 0);
        for (uint64_t k = 0, n; k < size; k += n) assert_true((n = lzt__utf8_get(part + k, size - k, &code)) > 0);
        strncat(got, part, size);
    }
    assert_string_equal(got, text);
    const char *part;
    uint64_t size;
    assert_int_equal(lzt_decoder_push(d, e.ids[1], &part, &size, &err), 0);
    assert_int_equal(size, 0);
    assert_int_equal(lzt_decoder_finish(d, &part, &size, &err), 0);
    assert_int_equal(size, 3);
    assert_memory_equal(part, "\xef\xbf\xbd", 3);
    lzt_decoder_destroy(d);
    close_it(&f);
}

int main(void)
{
    root = getenv("LZT_DATA") ? getenv("LZT_DATA") : "../shared/data";
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizers", root);
    FILE *there = fopen(path, "r");
    if (!there) {
        fprintf(stderr, "skipped: %s is not there (set LZT_DATA)\n", path);
        return 77;
    }
    fclose(there);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),   cmocka_unit_test(qwen3),   cmocka_unit_test(ranks),
        cmocka_unit_test(cl100k), cmocka_unit_test(mistral), cmocka_unit_test(stories),
        cmocka_unit_test(tiny),   cmocka_unit_test(written), cmocka_unit_test(held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
