/* Goal: the extractor finds the answer that a person would, and compares numbers as numbers.
 *
 * Method: sixty hand-made texts with their references, of every kind that GSM8K and MetaMathQA have or invite: units,
 * commas, fractions, negatives, several candidates, none, and what is no number. Then patterns of one's own, and
 * numbers at the edge of what is taken.
 */
#include "data/answer/answer.h"
#include "data/answer/answer_number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct sample {
    const char *text, *reference;
    bool right;
} sample;

static const sample samples[] = {
    /* plain, in both spellings */
    {"4 + 14 = 18\n#### 18", "#### 18", true},
    {"So she has 18.\nThe answer is: 18", "#### 18", true},
    {"The answer is 18", "The answer is: 18", true},
    {"the answer is: 18.", "#### 18", true},
    {"####18", "#### 18", true},
    {"#### 19", "#### 18", false},
    {"#### 1.8", "#### 18", false},
    {"#### 18\n", "#### 18", true},
    {"####\n18", "#### 18", true},
    /* decimals */
    {"#### 18.00", "#### 18", true},
    {"#### .5", "#### 0.50", true},
    {"#### 0.1", "#### 0.10000000000000000000001", false}, /* equal as doubles */
    {"#### 3.14", "#### 3.1400", true},
    {"#### 3.14", "#### 3.141", false},
    {"#### 1.5e3", "#### 1500", true},
    {"#### 2e-2", "#### 0.02", true},
    /* commas and currencies */
    {"#### 1,000", "#### 1000", true},
    {"#### $1000.00", "#### 1,000", true},
    {"#### $1,234,567.80", "#### 1234567.8", true},
    {"#### 1,00", "#### 100", false}, /* no group of three: no number */
    {"#### \xe2\x82\xac 12", "#### 12", true},
    {"#### 12,000,001", "#### 12000000", false},
    {"The answer is: \\$18", "#### 18", true},
    {"The answer is: $18$", "#### 18", true},
    /* units */
    {"#### 18 dollars", "#### 18", true},
    {"#### 50%", "#### 50", true},
    {"#### 50\\%", "#### 50%", true},
    {"#### 50 percent", "#### 50%", true},
    {"#### 50%", "#### 0.5", false}, /* a unit is no factor */
    {"#### 5 km/h", "#### 5", true},
    {"#### 5m", "#### 5 meters", true},
    {"The answer is: 5\\text{ feet}", "#### 5", true},
    {"The answer is: 90^\\circ", "#### 90 degrees", true},
    {"#### 12 dollars and 50 cents", "#### 12", false}, /* two numbers are no number */
    {"#### 5x", "#### 5", false},                       /* a variable is no unit */
    /* fractions */
    {"#### 1/2", "#### 0.5", true},
    {"#### 2/4", "#### 1/2", true},
    {"#### 1/3", "#### 0.333333333333333333", false},
    {"#### 1 1/2", "#### 1.5", true},
    {"#### 1\xc2\xbd", "#### 3/2", true},
    {"The answer is: \\frac{1}{2}", "#### 1/2", true},
    {"The answer is: \\dfrac{1,000}{8}", "#### 125", true},
    {"The answer is: \\frac34", "#### 0.75", true},
    {"#### 3/4 cups", "#### .75", true},
    {"#### 1/0", "#### 1/0", true}, /* no number, but the same string */
    /* negatives */
    {"#### -3", "#### -3.0", true},
    {"#### -3", "#### 3", false},
    {"#### \xe2\x88\x92"
     "3",
     "#### -3", true}, /* the minus sign */
    {"#### -$5", "#### $-5", true},
    {"#### -0", "#### 0", true},
    {"#### -1/2", "#### -0.5", true},
    /* several candidates: the last counts */
    {"#### 7\nNo, that is wrong.\n#### 18", "#### 18", true},
    {"The answer is: 18\nThe answer is: 7", "#### 18", false},
    {"#### 5, or rather\nThe answer is: 18", "#### 18", true},
    /* none */
    {"She has 18 eggs.", "#### 18", false},
    {"#### ", "#### 18", false},
    {"", "#### 18", false},
    /* what is no number is a trimmed string */
    {"The answer is:  Paris ", "The answer is: Paris.", true},
    {"The answer is: paris", "The answer is: Paris", false},
    {"The answer is: x^2+1", "The answer is: x^2+1", true},
};

static bool judge(const lzt__answer_pattern *pattern, const sample *s)
{
    lzt__answer made, expected;
    assert_true(lzt__answer_find(pattern, s->reference, strlen(s->reference), &expected));
    return lzt__answer_find(pattern, s->text, strlen(s->text), &made) && lzt__answer_equal(&made, &expected) &&
           lzt__answer_equal(&expected, &made);
}

static void sixty_answers(void **state)
{
    (void)state;
    lzt_error err = {0};
    lzt__answer_pattern *pattern;
    assert_int_equal(sizeof samples / sizeof *samples, 60);
    assert_int_equal(lzt__answer_pattern_open(NULL, &pattern, &err), LZT_OK);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (judge(pattern, &samples[i]) != samples[i].right)
            fail_msg("%d: \"%s\" against \"%s\" is not judged %s", (int)i, samples[i].text, samples[i].reference,
                     samples[i].right ? "right" : "wrong");
    lzt__answer_pattern_close(pattern);
}

static void own_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *answer; /* answer NULL: none */
    } cases[] = {{"\\\\boxed\\{([^}]*)\\}", "\\boxed{4} then \\boxed{5}", "5"},
                 {"-?[0-9.]+", "first 3, then -4.5 apples", "-4.5"}, /* no group: the whole match */
                 {"A: (yes|no)|B", "A: yes B", NULL},                /* the last match has no group */
                 {"x*", "\xc3\xa9\xc3\xa9xx\xc3\xa9", NULL},         /* empty matches end */
                 {"(?i)final:(.*)", "FINAL: caf\xc3\xa9", "caf\xc3\xa9"},
                 {"(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", NULL}}; /* gives up, does not hang */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lzt_error err = {0};
        lzt__answer_pattern *pattern;
        lzt__answer a;
        assert_int_equal(lzt__answer_pattern_open(cases[i].pattern, &pattern, &err), LZT_OK);
        bool found = lzt__answer_find(pattern, cases[i].text, strlen(cases[i].text), &a);
        if (found != (cases[i].answer != NULL)) fail_msg("%s: found %d", cases[i].pattern, found);
        if (found && (a.size != strlen(cases[i].answer) || memcmp(a.text, cases[i].answer, a.size)))
            fail_msg("%s: \"%.*s\"", cases[i].pattern, (int)a.size, a.text);
        lzt__answer_pattern_close(pattern);
    }
}

static void a_bad_pattern_is_refused(void **state)
{
    (void)state;
    lzt_error err = {0};
    lzt__answer_pattern *pattern;
    assert_int_equal(lzt__answer_pattern_open("(oops", &pattern, &err), LZT_ERR_USAGE);
    assert_null(pattern);
    assert_string_equal(err.where, "answer_pattern");
    assert_non_null(strstr(err.message, "(oops"));
}

/* Of lengths that no double holds: exact to the last digit, and beyond a hundred digits a string. */
static void long_numbers(void **state)
{
    (void)state;
    char a[300], b[300];
    lzt__rational x, y;
    memset(a, '7', 99);
    strcpy(a + 99, "1/3");
    memset(b, '7', 99);
    strcpy(b + 99, "2/3");
    assert_true(lzt__rational_parse(a, strlen(a), &x) && lzt__rational_parse(b, strlen(b), &y));
    assert_true(lzt__rational_equal(&x, &x));
    assert_false(lzt__rational_equal(&x, &y));
    assert_true(lzt__rational_parse("1e100", 5, &x) && lzt__rational_parse("10e99", 5, &y));
    assert_true(lzt__rational_equal(&x, &y));
    assert_false(lzt__rational_parse("1e101", 5, &x));
    memset(a, '7', 101);
    assert_false(lzt__rational_parse(a, 101, &x));
    assert_false(lzt__rational_parse("1\0"
                                     "8",
                                     3, &x));
    assert_false(lzt__rational_parse("", 0, &x));
    assert_false(lzt__rational_parse("18 - x", 6, &x));
    assert_false(lzt__rational_parse("3\xcf\x80", 3, &x));
    assert_true(lzt__rational_parse("5-year plan", 11, &x));
    assert_true(lzt__rational_parse("x = \\boxed{-5}", 14, &x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_answers),
        cmocka_unit_test(own_patterns),
        cmocka_unit_test(a_bad_pattern_is_refused),
        cmocka_unit_test(long_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
