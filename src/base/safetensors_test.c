/* Goal: a safetensors header is accepted exactly when the format allows it, and a hostile one costs little.
 *
 * Method: header texts by hand with the data size they claim, each malformed in one way; whole files cut at every
 * length; headers of many megabytes under a time limit given by the test runner, not asserted here.
 */
#include "base/safetensors.h"
#include "base/safetensors_write.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static lzt_status parse_bytes(const char *header, size_t bytes, uint64_t data_bytes, lzt__st *st, lzt_error *err)
{
    char *copy = malloc(bytes + 1);
    memcpy(copy, header, bytes);
    return lzt__st_parse(copy, bytes, data_bytes, "f.safetensors", st, err);
}

static void accept(const char *header, uint64_t data_bytes, uint32_t count)
{
    lzt__st st;
    lzt_error err = {0};
    if (parse_bytes(header, strlen(header), data_bytes, &st, &err)) fail_msg("%s: %s", header, err.message);
    assert_int_equal(st.count, count);
    lzt__st_close(&st);
}

static void refuse(const char *header, uint64_t data_bytes, const char *word)
{
    lzt__st st;
    lzt_error err = {0};
    lzt_status status = parse_bytes(header, strlen(header), data_bytes, &st, &err);
    if (status != LZT_ERR_MODEL) fail_msg("not refused: %s", header);
    assert_string_equal(err.where, "f.safetensors");
    if (!strstr(err.message, word)) fail_msg("%s: \"%s\" lacks \"%s\"", header, err.message, word);
}

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void legal(void **state)
{
    (void)state;
    accept("{}", 0, 0);
    accept("{}   \n", 0, 0);
    accept("{" T("a", "F32", "2", 0, 8) "}", 8, 1);
    accept("{" T("b", "BF16", "2,2", 8, 16) " , " T("a", "F32", "2", 0, 8) "}  ", 16, 2); /* not in order of offset */
    accept("{" T("a", "F32", "", 0, 4) "}", 4, 1);                                        /* rank 0 */
    accept("{" T("a", "F32", "0,7", 0, 0) "," T("b", "U8", "3", 0, 3) "}", 3, 2);         /* empty */
    accept("{" T("a", "F4", "2,3", 0, 3) "}", 3, 1);
    accept("{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}," T("a", "I64", "1", 0, 8) "}", 8, 1);
    accept("{\"__metadata__\":{}}", 0, 0);
    accept("{" T("a", "U8", "18446744073709551615,18446744073709551615,0", 0, 0) "}", 0, 1);
    lzt__st st;
    const char *escaped = "{" T("\\u00e9\\n\\\"\\ud83d\\ude00", "U8", "1", 0, 1) "}";
    assert_int_equal(parse_bytes(escaped, strlen(escaped), 1, &st, NULL), LZT_OK);
    assert_non_null(lzt__st_find(&st, "\xc3\xa9\n\"\xf0\x9f\x98\x80"));
    assert_null(lzt__st_find(&st, "other"));
    lzt__st_close(&st);
}

static void bad_grammar(void **state)
{
    (void)state;
    refuse("", 0, "begin");
    refuse(" {}", 0, "begin");
    refuse("[]", 0, "begin");
    refuse("{", 0, "byte");
    refuse("{}x", 0, "after");
    refuse("{\"a\":1}", 0, "expected");
    refuse("{" T("a", "F32", "2", 0, 8) ",}", 8, "expected");
    refuse("{" T("a", "F32", "-2", 0, 8) "}", 8, "whole number");
    refuse("{" T("a", "F32", "2.0", 0, 8) "}", 8, "whole number");
    refuse("{" T("a", "F32", "2e0", 0, 8) "}", 8, "whole number");
    refuse("{" T("a", "F32", "02", 0, 8) "}", 8, "leading");
    refuse("{" T("a", "F32", "18446744073709551616", 0, 8) "}", 8, "64 bits");
    refuse("{" T("a", "F33", "2", 0, 8) "}", 8, "dtype");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "missing");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "twice");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "none of");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "expected");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice");
    refuse("{\"a\xff\":{}}", 0, "UTF-8");
    refuse("{\"a\\u0000\":{}}", 0, "NUL");
    refuse("{\"a\\ud800\":{}}", 0, "surrogate");
    refuse("{\"a\\q\":{}}", 0, "escape");
    refuse("{\"a", 0, "end");
    refuse("{\"a\n\":{}}", 0, "control");
    refuse("{" T("a", "U8", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, "16");
}

static void bad_layout(void **state)
{
    (void)state;
    refuse("{" T("a", "F32", "2", 0, 8) "," T("a", "F32", "2", 8, 16) "}", 16, "twice");
    refuse("{" T("a", "F32", "2", 0, 8) "," T("\\u0061", "F32", "2", 8, 16) "}", 16, "twice");
    refuse("{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "2", 4, 12) "}", 12, "begins at byte 4");   /* overlap */
    refuse("{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "2", 12, 20) "}", 20, "begins at byte 12"); /* hole */
    refuse("{" T("a", "F32", "2", 4, 12) "}", 12, "begins at byte 4");
    refuse("{" T("a", "F32", "2", 0, 8) "}", 9, "longer");
    refuse("{" T("a", "F32", "2", 0, 8) "}", 7, "cut");
    refuse("{}", 1, "longer");
    refuse("{" T("a", "F32", "3", 0, 8) "}", 8, "span");
    refuse("{" T("a", "F32", "2", 8, 0) "}", 8, "ends before");
    refuse("{" T("a", "F4", "3", 0, 2) "}", 2, "whole bytes");
    refuse("{" T("a", "F32", "4294967296,4294967296", 0, 0) "}", 0, "64 bits");
    refuse("{" T("a", "F64", "2305843009213693952", 0, 0) "}", 0, "64 bits");
}

static void hostile_sizes(void **state)
{
    (void)state;
    /* 40 MB of '[': refused at the first one, without recursion. */
    size_t bytes = 40000000;
    char *header = malloc(bytes + 1);
    memset(header, '[', bytes);
    header[0] = '{';
    memcpy(header + 1, "\"a\":", 4);
    lzt__st st;
    lzt_error err = {0};
    assert_int_equal(lzt__st_parse(header, bytes, 0, "f", &st, &err), LZT_ERR_MODEL);
    /* 600,000 empty tensors, the last twice: found by sorting. */
    size_t used = 0;
    header = malloc(bytes);
    header[used++] = '{';
    for (int i = 0; i < 600000; i++)
        used += (size_t)snprintf(header + used, bytes - used,
                                 "\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", i);
    used += (size_t)snprintf(header + used, bytes - used, T("599999", "U8", "0", 0, 0) "}");
    assert_int_equal(lzt__st_parse(header, used, 0, "f", &st, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "twice"));
}

static char root[64];

static const char *write_file(const void *data, size_t bytes)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/f.safetensors", root);
    assert_int_equal(lzt__os_write_file_atomic(lzt__os_posix(), path, data, bytes, NULL), LZT_OK);
    return path;
}

static void files_cut_anywhere(void **state)
{
    (void)state;
    static const char header[] = "{" T("a", "F32", "2", 0, 8) "," T("b", "BF16", "3", 8, 14) "}";
    unsigned char file[512] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    size_t bytes = 8 + sizeof header - 1 + 14;
    lzt__st st;
    for (size_t cut = 0; cut < bytes; cut++) {
        lzt_error err = {0};
        if (lzt__st_open(lzt__os_posix(), write_file(file, cut), &st, &err) != LZT_ERR_MODEL)
            fail_msg("%zu of %zu bytes: status %d", cut, bytes, err.status);
    }
    assert_int_equal(lzt__st_open(lzt__os_posix(), write_file(file, bytes), &st, NULL), LZT_OK);
    lzt_error err = {0};
    float values[2];
    write_file(file, bytes - 1); /* cut after it was opened: an error, not a crash */
    assert_int_equal(lzt__st_read(&st, &st.entry[0], 0, 8, values, &err), LZT_ERR_MODEL);
    assert_non_null(strstr(err.message, "changed"));
    lzt__st_close(&st);
    file[4] = 1; /* a header of 4 GiB */
    assert_int_equal(lzt__st_open(lzt__os_posix(), write_file(file, bytes), &st, &err), LZT_ERR_MODEL);
    assert_int_equal(lzt__st_open(lzt__os_posix(), root, &st, &err), LZT_ERR_MODEL); /* a directory */
}

/* Every F16 widens exactly, and narrowing is to nearest even. */
static void half_precision(void **state)
{
    (void)state;
    lzt__staging staging;
    lzt__staging_file file;
    float values[65536], back[65536];
    uint16_t halves[65536];
    for (uint32_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    lzt__st_to_f32(LZT_DTYPE_F16, halves, 65536, values);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t exponent = i >> 10 & 31, fraction = i & 1023;
        double want = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
        if (exponent == 31) want = fraction ? NAN : INFINITY;
        if (i & 0x8000) want = -want;
        assert_true(isnan(want) ? isnan(values[i]) : values[i] == want);
    }
    char target[96];
    snprintf(target, sizeof target, "%s/half", root);
    assert_int_equal(lzt__staging_open(lzt__os_posix(), target, &staging, NULL), LZT_OK);
    assert_int_equal(lzt__staging_create(&staging, "h", &file, NULL), LZT_OK);
    assert_int_equal(lzt__st_write_values(&file, "h", LZT_DTYPE_F16, values, 65536, NULL), LZT_OK);
    const float more[4] = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 65519.0f, 0x1p-25f}; /* ties to even; the largest; to 0 */
    assert_int_equal(lzt__st_write_values(&file, "h", LZT_DTYPE_F16, more, 4, NULL), LZT_OK);
    const float large = 65520.0f;
    lzt_error err = {0};
    assert_int_equal(lzt__st_write_values(&file, "h", LZT_DTYPE_F16, &large, 1, &err), LZT_ERR_MODEL);
    assert_int_equal(lzt__staging_finish(&file, NULL), LZT_OK);
    int fd = openat(staging.fd, "h", O_RDONLY);
    assert_int_equal(pread(fd, halves, sizeof halves, 0), sizeof halves);
    uint16_t four[4];
    assert_int_equal(pread(fd, four, sizeof four, sizeof halves), sizeof four);
    close(fd);
    lzt__st_to_f32(LZT_DTYPE_F16, halves, 65536, back);
    for (uint32_t i = 0; i < 65536; i++) assert_true(isnan(values[i]) ? isnan(back[i]) : halves[i] == i);
    assert_int_equal(four[0], 0x3c00);
    assert_int_equal(four[1], 0x3c02);
    assert_int_equal(four[2], 0x7bff);
    assert_int_equal(four[3], 0);
    lzt__staging_close(&staging);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/lzt_safetensors.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal),         cmocka_unit_test(bad_grammar),        cmocka_unit_test(bad_layout),
        cmocka_unit_test(hostile_sizes), cmocka_unit_test(files_cut_anywhere), cmocka_unit_test(half_precision)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
