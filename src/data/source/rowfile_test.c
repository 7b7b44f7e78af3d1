/* Goal: a CSV file is cut where its records end: a quote opens at a field's begin alone, inside quotes newlines and
 * commas are text, and rows are never joined or lost in silence. Method: small files written here, their rows and
 * lines. */
#include "data/source/rowfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static lzt_status open_csv(const char *text, lzt__rowfile *f, lzt_error *err)
{
    char path[128];
    snprintf(path, sizeof path, "/tmp/lzt-rowfile-test-%d.csv", (int)getpid());
    FILE *out = fopen(path, "wb");
    fwrite(text, 1, strlen(text), out);
    fclose(out);
    lzt_status s = lzt__rowfile_open(path, 0, f, err);
    unlink(path);
    return s;
}

static void row_is(const lzt__rowfile *f, uint64_t i, uint32_t line, const char *text)
{
    assert_int_equal(f->row[i].line, line);
    assert_int_equal(f->row[i].size, strlen(text));
    assert_memory_equal(f->text + f->row[i].offset, text, f->row[i].size);
}

static void records(void **state)
{
    (void)state;
    lzt__rowfile f;
    lzt_error err;
    assert_int_equal(open_csv("a,b\n5\" pipe,1\n6\" pipe,2\n\n\"x\ny\",\"say \"\"no\"\"\n\",\n3,\"\"\n", &f, &err), 0);
    assert_int_equal(f.kind, LZT__ROWFILE_CSV);
    assert_int_equal(f.row_count, 4);
    row_is(&f, 0, 2, "5\" pipe,1");
    row_is(&f, 1, 3, "6\" pipe,2");
    row_is(&f, 2, 5, "\"x\ny\",\"say \"\"no\"\"\n\",");
    row_is(&f, 3, 8, "3,\"\"");
    assert_int_equal(f.blank_lines, 1);
    lzt__rowfile_close(&f);
}

/* A header may begin with a bracket: the name says what the file is. */
static void bracket(void **state)
{
    (void)state;
    lzt__rowfile f;
    lzt_error err;
    assert_int_equal(open_csv("[id],text\n1,one\n", &f, &err), 0);
    assert_int_equal(f.kind, LZT__ROWFILE_CSV);
    assert_int_equal(f.row_count, 1);
    lzt__rowfile_close(&f);
}

static void not_closed(void **state)
{
    (void)state;
    lzt__rowfile f;
    lzt_error err;
    assert_int_equal(open_csv("a,b\n1,2\n3,\"4\n5,6\n", &f, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "line 3"));
}

/* A name says CSV in capitals too; what is no file of rows is refused at once. */
static void names(void **state)
{
    (void)state;
    lzt__rowfile f;
    lzt_error err;
    char path[128];
    snprintf(path, sizeof path, "/tmp/lzt-rowfile-test-%d.CSV", (int)getpid());
    FILE *out = fopen(path, "wb");
    fputs("a,b\n1,2\n", out);
    fclose(out);
    assert_int_equal(lzt__rowfile_open(path, 0, &f, &err), 0);
    assert_int_equal(f.kind, LZT__ROWFILE_CSV);
    lzt__rowfile_close(&f);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lzt__rowfile_open(path, 0, &f, &err), LZT_ERR_DATA);
    assert_non_null(strstr(err.message, "not a regular file"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records), cmocka_unit_test(bracket),
                                       cmocka_unit_test(not_closed), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
