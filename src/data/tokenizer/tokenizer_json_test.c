/* Goal: a tokenizer.json's tokens say where they begin, also where the reference's order of symbols is not the text's:
 * begins never fall. Method: small tokenizers written here; ids are those of tokenizers 0.23.3. */
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static lzt_tokenizer *open_text(const char *json)
{
    char path[128];
    lzt_tokenizer *t;
    lzt_error err = {0};
    snprintf(path, sizeof path, "/tmp/lzt-tokenizer-json-test-%d.json", (int)getpid());
    FILE *f = fopen(path, "wb");
    fwrite(json, 1, strlen(json), f);
    fclose(f);
    if (lzt_tokenizer_open(path, NULL, &t, &err)) fail_msg("%s: %s", err.where, err.message);
    unlink(path);
    return t;
}

static void encodes(const char *json, const char *text, uint64_t count, const int32_t *ids, const uint32_t *begin)
{
    lzt_tokenizer *t = open_text(json);
    lzt_encoder *e;
    lzt_encoding x;
    lzt_error err;
    assert_int_equal(lzt_encoder_create(t, &e, &err), 0);
    assert_int_equal(lzt_encoder_encode(e, text, strlen(text), NULL, 0, &x, &err), 0);
    assert_int_equal(x.count, count);
    assert_memory_equal(x.ids, ids, count * sizeof *ids);
    assert_memory_equal(x.begin, begin, count * sizeof *begin);
    lzt_encoder_destroy(e);
    lzt_tokenizer_close(t);
}

/* "aZ" then e-acute: Z is unknown and waits, the two bytes of the accented letter overtake it. */
static void bytes_overtake(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":"
        "{\"<unk>\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3},\"merges\":[]}}";
    static const int32_t ids[] = {1, 2, 3, 0, 1};
    static const uint32_t begin[] = {0, 1, 2, 3, 4};
    encodes(json,
            "aZ\xc3\xa9"
            "a",
            5, ids, begin);
}

/* Marks that the normal form puts in another order. */
static void marks_reordered(void **state)
{
    (void)state;
    static const char json[] = "{\"normalizer\":{\"type\":\"NFD\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
                               "\"\\u0323\":1,\"\\u0307\":2},\"merges\":[]}}";
    static const int32_t ids[] = {0, 1, 2, 0};
    static const uint32_t begin[] = {0, 1, 3, 5};
    encodes(json,
            "a\xcc\x87\xcc\xa3"
            "a",
            4, ids, begin);
}

/* Replace by a pattern, empty matches too: what replaces a text stands where the text's last character stood. */
static void replaced_by_pattern(void **state)
{
    (void)state;
#define VOCAB "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"-\":2,\" \":3,\"aa\":4,\"ab\":5}"
    static const char runs[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"-\"}"
        "," VOCAB ",\"merges\":[]}}";
    encodes(runs, "a   b a", 5, (const int32_t[]){0, 2, 1, 3, 0}, (const uint32_t[]){0, 3, 4, 5, 6});
    static const char empty[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?=b)\"},\"content\":\"-\"}"
        "," VOCAB ",\"merges\":[]}}";
    encodes(empty, "abb", 5, (const int32_t[]){0, 2, 1, 2, 1}, (const uint32_t[]){0, 1, 1, 2, 2});
    static const char cut[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=b)\"},\"behavior\":\"Isolated\","
        "\"invert\":false}," VOCAB ",\"merges\":[\"a a\",\"a b\"]}}";
    encodes(cut, "aab", 2, (const int32_t[]){4, 1}, (const uint32_t[]){0, 2});
}

/* An added token that matches normalised text is looked for in its normal form. */
static void added_in_normal_form(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":9,\"content\":\"a b\",\"normalized\":true}],\"normalizer\":{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\" \"},\"content\":\"-\"}," VOCAB ",\"merges\":[]}}";
    static const int32_t ids[] = {1, 9, 9};
    static const uint32_t begin[] = {0, 1, 4};
    lzt_tokenizer *t = open_text(json);
    lzt_encoder *e;
    lzt_encoding x;
    lzt_error err;
    assert_int_equal(lzt_encoder_create(t, &e, &err), 0);
    assert_int_equal(lzt_encoder_encode(e, "ba ba-b", 7, NULL, LZT_ENCODE_ADDED, &x, &err), 0);
    assert_int_equal(x.count, 3);
    assert_memory_equal(x.ids, ids, sizeof ids);
    assert_memory_equal(x.begin, begin, sizeof begin);
    lzt_encoder_destroy(e);
    lzt_tokenizer_close(t);
}

static void refuse(const char *json, const char *says)
{
    char path[128];
    lzt_tokenizer *t;
    lzt_error err = {0};
    snprintf(path, sizeof path, "/tmp/lzt-tokenizer-json-test-%d.json", (int)getpid());
    FILE *f = fopen(path, "wb");
    fwrite(json, 1, strlen(json), f);
    fclose(f);
    assert_int_equal(lzt_tokenizer_open(path, NULL, &t, &err), LZT_ERR_DATA);
    if (!strstr(err.message, says)) fail_msg("%s", err.message);
    unlink(path);
}

#define SPLIT(pattern)                                                                                                 \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\","        \
    "\"invert\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"aa\":4,\"ab\":5,\"\\n\":6,\"a\\n\":7," \
    "\"\\nb\":8},\"merges\":[\"a a\",\"a b\",\"a \\n\",\"\\n b\"]}}"

/* Oniguruma's (?m) is about the dot, and {,n} is a repeat; what PCRE2 would take for something else is refused. */
static void oniguruma_spelling(void **state)
{
    (void)state;
    encodes(SPLIT("(?m)^.*$"), "a\nb", 2, (const int32_t[]){7, 1}, (const uint32_t[]){0, 2});
    encodes(SPLIT("(?m:a.)b"), "aaab", 3, (const int32_t[]){0, 4, 1}, (const uint32_t[]){0, 1, 3});
    encodes(SPLIT("(?-m).+"), "a\nb", 3, (const int32_t[]){0, 6, 1}, (const uint32_t[]){0, 1, 2});
    encodes(SPLIT("a{,2}"), "aaab", 3, (const int32_t[]){4, 0, 1}, (const uint32_t[]){0, 2, 3});
    encodes(SPLIT("(?i)A"), "a\nb", 2, (const int32_t[]){0, 8}, (const uint32_t[]){0, 1});
    refuse(SPLIT("a{2}?"), "{n}?");
    refuse(SPLIT("(?x)a b"), "(?x");
    refuse(SPLIT("(?s:.)"), "(?s");
    refuse(SPLIT("(*FAIL)"), "(*");
    refuse(SPLIT("(?i)strasse"), "letters that fold into one");
    refuse(SPLIT("(?i:\\u00dfx|\xc3\x9f)"), "letters that fold into one");
}

static void decodes(const char *decoder, const char *first, const char *second)
{
    static const int32_t ids[2][5] = {{1, 0, 3, 4, 5}, {5, 1, 3}};
    char json[1024], *text;
    lzt_error err;
    snprintf(json, sizeof json,
             "{\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xe2\x96\x81\":0,\"\xe2\x96\x81\xe2\x96\x81"
             "a\":1,\"a\":2,\"<0x41>\":3,\"b\xe2\x96\x81\":4,\" c\":5},\"merges\":[]}}",
             decoder);
    lzt_tokenizer *t = open_text(json);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lzt_tokenizer_decode(t, ids[i], i ? 3 : 5, false, &text, NULL, &err), 0);
        assert_string_equal(text, i ? second : first);
        free(text);
    }
    lzt_tokenizer_close(t);
}

#define CHAIN(steps)    "{\"type\":\"Sequence\",\"decoders\":[" steps "]}"
#define MARKS           "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"}"
#define BYTES           "{\"type\":\"ByteFallback\"}"
#define FUSE            "{\"type\":\"Fuse\"}"
#define STRIP           "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
#define METASPACE(when) "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"" when "\"}"
#define WITH(decoder)   "{\"decoder\":" decoder ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"

/* Each step of a decoder does what is its own: no bytes without ByteFallback, no spaces without Replace. */
static void decoders(void **state)
{
    (void)state;
    decodes(METASPACE("always"), "a <0x41>b  c", " c  a<0x41>");
    decodes(METASPACE("never"), "  a <0x41>b  c", " c  a<0x41>");
    decodes(CHAIN(MARKS "," BYTES "," FUSE "," STRIP), " a Ab  c", "c  aA");
    decodes(CHAIN(BYTES "," FUSE),
            "\xe2\x96\x81\xe2\x96\x81"
            "a\xe2\x96\x81"
            "Ab\xe2\x96\x81 c",
            " c\xe2\x96\x81\xe2\x96\x81"
            "aA");
    decodes(CHAIN(MARKS "," FUSE "," STRIP), " a <0x41>b  c", "c  a<0x41>");
    decodes(CHAIN(MARKS "," BYTES), "  a Ab  c", " c  aA");
    refuse(WITH(CHAIN(MARKS "," BYTES "," STRIP)), "decoder Strip");
    refuse(WITH(CHAIN(FUSE "," BYTES)), "decoder ByteFallback");
    refuse(WITH(CHAIN(BYTES "," MARKS)), "decoder Replace");
    refuse(WITH("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}"), "decoder Metaspace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_overtake),      cmocka_unit_test(marks_reordered),
                                       cmocka_unit_test(replaced_by_pattern), cmocka_unit_test(added_in_normal_form),
                                       cmocka_unit_test(oniguruma_spelling),  cmocka_unit_test(decoders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
