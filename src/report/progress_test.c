/* Goal: a terminal gets a bar that is redrawn, anything else plain lines at logging_steps and no control byte. Method:
 * the lines are written to memory and compared. Tables are tested here too: same method. */
#include "lazytrain/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char *text;
static size_t text_bytes;

static void run(lzt_progress progress)
{
    free(text);
    progress.stream = open_memstream(&text, &text_bytes);
    for (uint64_t step = 1; step <= 5; step++) {
        lzt_step_metrics m = {.step = step, .loss = 1.5, .grad_norm = 0.25, .lr = 1e-4, .finite = step != 3};
        m.step_seconds = 2;
        m.tokens_real = 100;
        m.exposed_seconds[LZT_CAUSE_H2D] = 0.5;
        lzt_progress_step(&progress, &m);
    }
    lzt_eval_metrics eval = {.step = 5, .eval_loss = 0, .eval_tokens = 7, .eval_seconds = 1};
    lzt_progress_eval(&progress, &eval);
    fclose(progress.stream);
}

static void plain_lines_elsewhere(void **state)
{
    (void)state;
    run((lzt_progress){.total_steps = 5, .logging_steps = 2});
    assert_string_equal(
        text, "step 2/5  loss 1.5000  norm 0.25  lr 0.0001  2 s/step  50 tokens/s  wait 25 % (h2d)  ETA 00:06\n"
              "step 3/5  loss 1.5000  norm 0.25  lr 0.0001  2 s/step  50 tokens/s  wait 25 % (h2d)  ETA 00:04"
              "  NOT FINITE: step skipped\n"
              "step 4/5  loss 1.5000  norm 0.25  lr 0.0001  2 s/step  50 tokens/s  wait 25 % (h2d)  ETA 00:02\n"
              "step 5/5  loss 1.5000  norm 0.25  lr 0.0001  2 s/step  50 tokens/s  wait 25 % (h2d)  ETA 00:00\n"
              "step 5  eval loss 0.0000  perplexity 1  7 tokens  1 s\n");
    run((lzt_progress){.total_steps = 5, .logging_steps = 0});
    assert_string_equal(text, "step 5  eval loss 0.0000  perplexity 1  7 tokens  1 s\n");
}

static void a_bar_on_a_terminal(void **state)
{
    (void)state;
    run((lzt_progress){.total_steps = 5, .logging_steps = 2, .is_terminal = true});
    assert_non_null(strstr(text, "[####................] step 1/5"));
    assert_non_null(strstr(text, "\r\x1b[K[########............] step 2/5"));
    assert_non_null(strstr(text, "NOT FINITE: step skipped\n"));
    assert_null(strstr(text, "\x1b[36m")); /* no colour unless asked for */
}

static void durations(void **state)
{
    (void)state;
    char out[32];
    assert_string_equal(lzt_progress_duration(0, out), "00:00");
    assert_string_equal(lzt_progress_duration(3599.4, out), "59:59");
    assert_string_equal(lzt_progress_duration(3600, out), "1:00:00");
    assert_string_equal(lzt_progress_duration(NAN, out), "?");
    assert_string_equal(lzt_progress_duration(-1, out), "?");
}

static void columns_are_aligned(void **state)
{
    (void)state;
    static const lzt_table_column columns[] = {{"tier", false}, {"bytes", true}, {"note", false}};
    lzt_table *table = lzt_table_create(columns, 3);
    lzt_table_cell(table, "%s", "gpu");
    lzt_table_cell(table, "%d", 12345678);
    lzt_table_cell(table, "a");
    lzt_table_cell(table, "\xc3\xa9\xc3\xa9");
    lzt_table_cell(table, "%d", 1);
    lzt_table_cell(table, "b");
    free(text);
    FILE *out = open_memstream(&text, &text_bytes);
    assert_int_equal(lzt_table_print(table, out, NULL), LZT_OK);
    fclose(out);
    assert_string_equal(text, "tier     bytes  note\n"
                              "gpu   12345678  a\n"
                              "\xc3\xa9\xc3\xa9           1  b\n");
    lzt_table_destroy(table);
    free(text);
    text = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_lines_elsewhere), cmocka_unit_test(a_bar_on_a_terminal),
                                       cmocka_unit_test(durations), cmocka_unit_test(columns_are_aligned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
