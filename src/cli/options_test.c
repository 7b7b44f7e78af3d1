/* Goal: command lines are taken by the table, or refused with the nearest name. Method: one table with every type,
 * parsed from word lists. */
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    (void)args;
    (void)err;
    return LZT_OK;
}

static const lzt_option options[] = {
    {.name = "PLAN", .type = LZT_OPTION_PATH, .required = true, .help = "a plan"},
    {.name = "MORE", .type = LZT_OPTION_TEXT, .repeated = true, .help = "more"},
    {.name = "batch-size", .argument = "N", .type = LZT_OPTION_UINT, .fallback = "8", .help = "rows"},
    {.name = "offset", .argument = "N", .type = LZT_OPTION_INT, .fallback = "0", .help = "offset"},
    {.name = "scale", .argument = "X", .type = LZT_OPTION_REAL, .fallback = "5.0", .help = "scale"},
    {.name = "cap", .argument = "SIZE", .type = LZT_OPTION_SIZE, .help = "cap"},
    {.name = "lock", .argument = "true|false", .type = LZT_OPTION_BOOL, .fallback = "true", .help = "lock"},
    {.name = "dtype",
     .argument = "T",
     .type = LZT_OPTION_CHOICE,
     .choices = "f32|bf16",
     .fallback = "f32",
     .help = "t"},
    {.name = "sweep", .argument = "A=B", .type = LZT_OPTION_TEXT, .repeated = true, .help = "sweep"},
    LZT_OPTION_JSON,
};
static const lzt_command command = {.name = "plan",
                                    .summary = "plan",
                                    .example = "lazytrain plan p.json",
                                    .option = options,
                                    .option_count = LZT_COUNT(options),
                                    .run = run};
static const lzt_command train = {.name = "train",
                                  .summary = "t",
                                  .example = "lazytrain train c.yaml",
                                  .option = options,
                                  .option_count = 1,
                                  .overrides = true,
                                  .run = run};

static lzt_args *args;
static lzt_error err;

static lzt_status parse(const lzt_command *c, int count, ...)
{
    static char *words[16];
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++) words[i] = va_arg(list, char *);
    va_end(list);
    lzt_args_free(args);
    args = NULL;
    err = (lzt_error){0};
    return lzt_args_parse(c, count, words, &args, &err);
}

static void every_type(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, 12, "p.json", "--batch_size", "1_000", "--offset=-3", "--scale", "1e-5", "--cap",
                           "70GiB", "--lock=off", "--dtype", "bf16", "--json"),
                     LZT_OK);
    assert_string_equal(lzt_args_text(args, "PLAN"), "p.json");
    assert_int_equal(lzt_args_uint(args, "batch-size"), 1000);
    assert_int_equal(lzt_args_int(args, "offset"), -3);
    assert_true(lzt_args_real(args, "scale") == 1e-5);
    assert_int_equal(lzt_args_size(args, "cap"), UINT64_C(70) << 30);
    assert_false(lzt_args_bool(args, "lock"));
    assert_string_equal(lzt_args_text(args, "dtype"), "bf16");
    assert_true(lzt_args_flag(args, "json"));
}

static void defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, 1, "p.json"), LZT_OK);
    assert_int_equal(lzt_args_uint(args, "batch-size"), 8);
    assert_true(lzt_args_real(args, "scale") == 5.0 && lzt_args_bool(args, "lock"));
    assert_null(lzt_args_text(args, "cap"));
    assert_false(lzt_args_given(args, "batch-size") || lzt_args_flag(args, "json"));
    assert_int_equal(lzt_args_count(args, "sweep"), 0);
}

static void repeated_options_and_operands(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, 8, "p.json", "--sweep", "cpu=8:15", "a", "b", "--sweep=gpu=1", "--", "--c"),
                     LZT_OK);
    assert_int_equal(lzt_args_count(args, "sweep"), 2);
    assert_string_equal(lzt_args_text_at(args, "sweep", 0), "cpu=8:15");
    assert_string_equal(lzt_args_text_at(args, "sweep", 1), "gpu=1");
    assert_int_equal(lzt_args_count(args, "MORE"), 3);
    assert_string_equal(lzt_args_text_at(args, "MORE", 2), "--c");
    assert_int_equal(parse(&command, 3, "p.json", "--offset", "-7"), LZT_OK);
    assert_int_equal(lzt_args_int(args, "offset"), -7);
    assert_int_equal(parse(&command, 2, "-", "--json"), LZT_OK);
    assert_string_equal(lzt_args_text(args, "PLAN"), "-");
}

static void refuse(lzt_status status, const char *where, const char *message, const char *hint)
{
    assert_int_equal(status, LZT_ERR_USAGE);
    assert_string_equal(err.where, where);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    assert_null(args);
}

static void refusals(void **state)
{
    (void)state;
    refuse(parse(&command, 2, "p", "--bach-size=1"), "plan", "unknown option --bach-size",
           "did you mean --batch-size?");
    refuse(parse(&command, 2, "p", "--zzzzzzzz"), "plan", "unknown option --zzzzzzzz", "see lazytrain plan --help");
    refuse(parse(&command, 0), "plan", "PLAN is missing", "for example: lazytrain plan p.json");
    refuse(parse(&command, 2, "p", "--batch-size"), "--batch-size", "needs a value", "write --batch-size N");
    refuse(parse(&command, 3, "p", "--batch-size", "--json"), "--batch-size", "needs a value", "write --batch-size N");
    refuse(parse(&command, 2, "p", "--json=1"), "--json=1", "takes no value", "");
    refuse(parse(&command, 3, "p", "--dtype", "f16"), "--dtype", "'f16' is not one of the choices",
           "the choices are f32|bf16");
    refuse(parse(&command, 3, "p", "--batch-size", "07"), "--batch-size", "'07' has a leading zero", "");
    refuse(parse(&command, 3, "p", "--json", "--json"), "--json", "given twice", "");
    refuse(parse(&command, 2, "p", "-x"), "-x", "short options do not exist; see lazytrain plan --help", "");
    refuse(parse(&train, 2, "c.yaml", "d.yaml"), "train", "unexpected argument 'd.yaml'", "see lazytrain train --help");
}

static void overrides_for_the_config(void **state)
{
    (void)state;
    int count;
    assert_int_equal(parse(&train, 7, "c.yaml", "--memory.device_cap", "200MiB", "--packing", "--lr=1e-5", "seed=3",
                           "--max_steps=5"),
                     LZT_OK);
    const lzt_config_override *o = lzt_args_overrides(args, &count);
    assert_int_equal(count, 5);
    assert_string_equal(o[0].key, "memory.device_cap");
    assert_string_equal(o[0].value, "200MiB");
    assert_string_equal(o[1].key, "packing");
    assert_null(o[1].value);
    assert_string_equal(o[2].key, "lr");
    assert_string_equal(o[2].value, "1e-5");
    assert_string_equal(o[3].key, "seed");
    assert_string_equal(o[3].value, "3");
    assert_string_equal(o[4].key, "max_steps");
}

static int drop(void **state)
{
    (void)state;
    lzt_args_free(args);
    args = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_type, drop),
        cmocka_unit_test_teardown(defaults, drop),
        cmocka_unit_test_teardown(repeated_options_and_operands, drop),
        cmocka_unit_test_teardown(refusals, drop),
        cmocka_unit_test_teardown(overrides_for_the_config, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
