/* Goal: a scalar's text is read exactly or refused with a reason. Method: tables of accepted and refused texts, each
 * with the value or the reason expected; the locale with a decimal comma where the system has one. */
#include "config/scalar.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},      {"42", 42}, {"1_000", 1000}, {"1e9", 1000000000},
                {"2E3", 2000}, {"+5", 5},  {"-0", 0},       {"18446744073709551615", UINT64_MAX}};
    static const struct {
        const char *text, *why;
    } bad[] = {{"", "is empty"},
               {"07", "has a leading zero"},
               {"00", "has a leading zero"},
               {"1e3.5", "is not a whole number"},
               {"12x", "is not a whole number"},
               {"12 ", "is not a whole number"},
               {" 12", "is not a number"},
               {"1.0", "is not a whole number"},
               {"1e-3", "is not a whole number"},
               {"0x10", "is not a whole number"},
               {"-1", "is negative"},
               {"1__0", "is not a number"},
               {"1_", "is not a number"},
               {"_1", "is not a number"},
               {"nan", "is not a number"},
               {"inf", "is not finite"},
               {"18446744073709551616", "is too large"},
               {"1e30", "is too large"},
               {"1e999999999999", "is too large"},
               {"-", "is not a number"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 77;
        const char *why = NULL;
        assert_true(lzt__scalar_uint(good[i].text, &value, &why));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value;
        const char *why = NULL;
        assert_false(lzt__scalar_uint(bad[i].text, &value, &why));
        assert_string_equal(why, bad[i].why);
    }
}

static void signed_integers(void **state)
{
    (void)state;
    int64_t value;
    const char *why;
    assert_true(lzt__scalar_int("-1", &value, &why));
    assert_int_equal(value, -1);
    assert_true(lzt__scalar_int("-9223372036854775807", &value, &why));
    assert_false(lzt__scalar_int("9223372036854775808", &value, &why));
}

static void check_reals(void)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"2e-5", 2e-5},    {"2.0e-5", 2e-5},      {"2E-05", 2e-5},
                {"0.00002", 2e-5}, {"-1e-5", -1e-5},      {".5", .5},
                {"5.", 5},         {"1_000.25", 1000.25}, {"0", 0},
                {"1e308", 1e308},  {"0e400", 0},          {"12345678901234567890123", 12345678901234567890123.0}};
    static const char *const bad[] = {"",      "nan", "inf", "-inf", ".inf",  "1e400",    "1e-400", "1,5", "1.5 ",
                                      "0x1p3", "1e",  "e5",  ".",    "1.2.3", "infinity", "007",    "1f",  "--1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double value = 77;
        const char *why = NULL;
        assert_true(lzt__scalar_real(good[i].text, &value, &why));
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value;
        const char *why = NULL;
        assert_false(lzt__scalar_real(bad[i], &value, &why));
        assert_non_null(why);
    }
}

static void reals(void **state)
{
    (void)state;
    check_reals();
}

static void reals_under_a_decimal_comma(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
        print_message("no locale with a decimal comma on this machine\n");
        skip();
    }
    assert_string_equal(localeconv()->decimal_point, ",");
    check_reals();
    setlocale(LC_ALL, "C");
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"70GiB", UINT64_C(70) << 30},
                {"200MiB", UINT64_C(200) << 20},
                {"1.5 GiB", UINT64_C(3) << 29},
                {"5GB", UINT64_C(5000000000)},
                {"1_000", 1000}};
    static const char *const bad[] = {"", "-1", "-1GiB", "GiB", "1 GiB x", "1e3GiB", "nan", "070GiB", "99999999TiB"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 77;
        const char *why = NULL;
        assert_true(lzt__scalar_size(good[i].text, &value, &why));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value;
        const char *why = NULL;
        assert_false(lzt__scalar_size(bad[i], &value, &why));
        assert_non_null(why);
    }
}

static void words(void **state)
{
    (void)state;
    bool value = false;
    const char *why;
    assert_true(lzt__scalar_bool("True", &value, &why) && value);
    assert_true(lzt__scalar_bool("off", &value, &why) && !value);
    assert_false(lzt__scalar_bool("1", &value, &why));
    assert_false(lzt__scalar_bool("", &value, &why));
    assert_true(lzt__scalar_choice("cpu", "auto|cpu|nvme", &why));
    assert_false(lzt__scalar_choice("cp", "auto|cpu|nvme", &why));
    assert_false(lzt__scalar_choice("", "auto|cpu|nvme", &why));
    assert_true(lzt__scalar_is_null("~") && lzt__scalar_is_null("") && lzt__scalar_is_null("null"));
    assert_false(lzt__scalar_is_null("0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers), cmocka_unit_test(signed_integers),
        cmocka_unit_test(reals),    cmocka_unit_test(reals_under_a_decimal_comma),
        cmocka_unit_test(sizes),    cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
