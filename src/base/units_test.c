/* Goal: a size means one number of bytes and nothing else is taken for one. Method: tables of good and bad text, and
 * a round trip through the exact format. */
#include "base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void reads_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"12B", 12},
        {"512K", 512 * LZT_KIB},
        {"512k", 512 * LZT_KIB},
        {"200MiB", 200 * LZT_MIB},
        {"200 MiB", 200 * LZT_MIB},
        {"70GiB", 70 * LZT_GIB},
        {"70gib", 70 * LZT_GIB},
        {"5GB", 5 * LZT_GB},
        {"2.5GB", 5 * LZT_GB / 2},
        {"1.5GiB", 3 * LZT_GIB / 2},
        {"0.5K", 512},
        {"1.0009765625KiB", 1025},
        {"0.1GiB", 107374182}, /* 107374182.4: the part of a byte is dropped */
        {"0.000000001GB", 1},
        {"0.3GB", 300000000}, /* a double would make 299999999.99 of it */
        {"1TiB", LZT_TIB},
        {"16383PiB", 16383 * (LZT_TIB * 1024)},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 1;
        lzt_error err = {0};
        if (lzt__units_parse_bytes(good[i].text, NULL, &bytes, &err)) fail_msg("%s: %s", good[i].text, err.message);
        if (bytes != good[i].bytes) fail_msg("%s gave %llu", good[i].text, (unsigned long long)bytes);
    }
}

static void refuses_the_rest(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "-1",
        "-1GiB",
        "+1",
        " 1",
        "1 ",
        "1  GiB",
        "GiB",
        "1.",
        ".5GiB",
        "1.5",
        "1e9",
        "1,5",
        "1GiBx",
        "1iB",
        "1Gb/s",
        "0x10",
        "1_000",
        "nan",
        "inf",
        "1.5B",
        "1XiB",
        "1 ",
        "1..5K",
        "18446744073709551616",
        "16384PiB",
        "1.0000000000000000000GB",
        "99999999999999999999TB",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        lzt_error err = {0};
        if (lzt__units_parse_bytes(bad[i], "--device-cap", &bytes, &err) != LZT_ERR_USAGE)
            fail_msg("'%s' was taken for a size", bad[i]);
        assert_int_equal(bytes, 77);
        assert_string_equal(err.where, "--device-cap");
        assert_non_null(strstr(err.message, bad[i]));
    }
    uint64_t bytes;
    assert_int_equal(lzt__units_parse_bytes("junk", NULL, &bytes, NULL), LZT_ERR_USAGE);
}

static void formats_for_eyes(void **state)
{
    (void)state;
    char out[LZT_UNITS_TEXT];
    assert_string_equal(lzt__units_format_bytes(0, out), "0 B");
    assert_string_equal(lzt__units_format_bytes(1023, out), "1023 B");
    assert_string_equal(lzt__units_format_bytes(1024, out), "1 KiB");
    assert_string_equal(lzt__units_format_bytes(200 * LZT_MIB, out), "200 MiB");
    assert_string_equal(lzt__units_format_bytes(3 * LZT_GIB / 2, out), "1.5 GiB");
    assert_string_equal(lzt__units_format_bytes(LZT_MIB - 1, out), "1 MiB");
    assert_string_equal(lzt__units_format_bytes(UINT64_MAX, out), "16384 PiB");
    assert_string_equal(lzt__units_format_decimal(12e9, "B/s", out), "12.0 GB/s");
    assert_string_equal(lzt__units_format_decimal(999.9e6, "B/s", out), "1.00 GB/s");
    assert_string_equal(lzt__units_format_decimal(345, "tokens/s", out), "345 tokens/s");
    assert_string_equal(lzt__units_format_decimal(0.25, "s", out), "0.25 s");
}

static void exact_format_reads_back(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        0, 1, 1000, 1024, 1025, 200 * LZT_MIB, 5 * LZT_GB, UINT64_MAX, LZT_TIB * 1024 * 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char out[LZT_UNITS_TEXT];
        uint64_t bytes;
        assert_int_equal(lzt__units_parse_bytes(lzt__units_format_exact(sizes[i], out), NULL, &bytes, NULL), LZT_OK);
        assert_true(bytes == sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(formats_for_eyes),
        cmocka_unit_test(exact_format_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
