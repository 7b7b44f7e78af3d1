/* Goal: a token cache gives back what was written or says that it is damaged, never anything else; processes that write
 * and read one key at once do not disturb one another.
 *
 * Method: random rows, written and read. Every byte of a file is flipped and every length cut in turn. Several
 * processes write, read and are killed at the same time.
 */
#include "data/dataset/token_cache.h"
#include "base/os.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char directory[] = "/tmp/lzt-tokens-XXXXXX";
static const lzt__token_key key = {{0x1234, 0xabcd}};

static uint32_t tokens_of(uint64_t row)
{
    return row % 5 == 3 ? 0 : (uint32_t)lzt__rng_below(1, 0, row, 40);
}

/* Rows of even and of odd lengths are among them. */
static bool is_weighted(uint64_t row)
{
    return row % 3 == 1 || row % 5 == 2;
}

static float weight_of(uint64_t row, uint32_t i)
{
    return i % 2 ? (float)(row + 1) / (float)(i + 3) : 0;
}

static lzt_status write_rows(uint64_t rows, lzt__token_key k, uint64_t longest_row)
{
    lzt__token_writer *w;
    lzt_error err = {0};
    lzt_status s = lzt__token_writer_create(directory, k, rows, &w, &err);
    int32_t *ids = malloc(4 * (longest_row + 64)), *labels = malloc(4 * (longest_row + 64));
    float *weights = malloc(4 * (longest_row + 64));
    for (uint64_t row = 0; !s && row < rows; row++) {
        if (row % 7 == 6) continue; /* not looked into */
        uint32_t n = row == 1 && longest_row ? (uint32_t)longest_row : tokens_of(row);
        for (uint32_t i = 0; i < n; i++) {
            ids[i] = (int32_t)(row * 1000 + i);
            labels[i] = i % 2 ? ids[i] : -100;
            weights[i] = weight_of(row, i);
        }
        lzt__row_facts f = {.tokens = n, .trained = n / 2, .verdict = n ? 0 : 1, .facts = row % 2 ? LZT__FACT_CUT : 0};
        if (is_weighted(row)) f.facts |= LZT__FACT_WEIGHTED;
        s = lzt__token_writer_add(w, row, &f, ids, labels, weights, &err);
    }
    if (!s) s = lzt__token_writer_publish(w, &err);
    lzt__token_writer_destroy(w);
    free(ids);
    free(labels);
    free(weights);
    return s;
}

static bool rows_are_right(const lzt__token_cache *c, uint64_t rows, uint64_t longest_row)
{
    for (uint64_t row = 0; row < rows; row++) {
        const lzt__row_facts *f = lzt__token_cache_row(c, row);
        if (!f != (row % 7 == 6)) return false;
        if (!f) continue;
        uint32_t n = row == 1 && longest_row ? (uint32_t)longest_row : tokens_of(row);
        const int32_t *ids = lzt__token_cache_tokens(c, f);
        if (f->tokens != n || f->trained != n / 2 || f->verdict != (n ? 0 : 1)) return false;
        if ((f->facts & LZT__FACT_CUT) != (row % 2 ? LZT__FACT_CUT : 0)) return false;
        for (uint32_t i = 0; i < n; i++)
            if (ids[i] != (int32_t)(row * 1000 + i) || ids[n + i] != (i % 2 ? ids[i] : -100)) return false;
        const float *weights = lzt__token_cache_weights(c, f);
        if (!weights != !is_weighted(row)) return false;
        for (uint32_t i = 0; weights && i < n; i++)
            if (weights[i] != weight_of(row, i)) return false;
    }
    return !lzt__token_cache_row(c, rows);
}

/* 0: none; 1: right; 2: damaged; 3: wrong content. */
static int look(uint64_t rows, lzt__token_key k, uint64_t longest_row)
{
    lzt__token_cache *c;
    char damage[256];
    lzt_error err;
    assert_int_equal(lzt__token_cache_open(directory, k, rows, &c, damage, &err), LZT_OK);
    if (!c) return damage[0] ? 2 : 0;
    bool right = rows_are_right(c, rows, longest_row);
    lzt__token_cache_close(c);
    return right && !damage[0] ? 1 : 3;
}

static void written_and_read(void **state)
{
    (void)state;
    const lzt__token_key other = {{0x1234, 0xabce}};
    assert_int_equal(look(100, key, 0), 0);
    assert_int_equal(write_rows(100, key, 0), LZT_OK);
    assert_int_equal(look(100, key, 0), 1);
    assert_int_equal(look(99, key, 0), 2); /* another number of rows */
    assert_int_equal(look(100, other, 0), 0);
    assert_int_equal(write_rows(60, key, 700000), LZT_OK); /* replaced; a row beyond the write buffer */
    assert_int_equal(look(60, key, 700000), 1);
    assert_int_equal(write_rows(0, other, 0), LZT_OK);
    assert_int_equal(look(0, other, 0), 1);
}

static void any_damage_is_seen(void **state)
{
    (void)state;
    char path[4096];
    const lzt__token_key k = {{7, 8}};
    uint64_t bytes;
    char *all;
    assert_int_equal(write_rows(12, k, 0), LZT_OK);
    lzt__token_cache_path(directory, k, path, sizeof path);
    assert_int_equal(lzt__os_read_file(lzt__os_posix(), path, 1 << 20, &all, &bytes, NULL), LZT_OK);
    int fd = open(path, O_RDWR);
    for (uint64_t at = 0; at < bytes; at++) {
        char flipped = (char)(all[at] ^ (1 << at % 8));
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        assert_int_equal(look(12, k, 0), 2);
        assert_int_equal(pwrite(fd, all + at, 1, (off_t)at), 1);
    }
    assert_int_equal(look(12, k, 0), 1);
    for (uint64_t size = 0; size < bytes; size++) {
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        assert_int_equal(look(12, k, 0), 2);
        assert_int_equal(pwrite(fd, all, bytes, 0), (ssize_t)bytes);
    }
    assert_int_equal(pwrite(fd, all, 8, (off_t)bytes), 8); /* longer */
    assert_int_equal(look(12, k, 0), 2);
    close(fd);
    free(all);
    assert_int_equal(write_rows(12, k, 0), LZT_OK); /* made anew over the damaged one */
    assert_int_equal(look(12, k, 0), 1);
}

static void a_directory_that_cannot_be_written(void **state)
{
    (void)state;
    lzt__token_writer *w;
    lzt_error err = {0};
    char file[64];
    snprintf(file, sizeof file, "%s/file", directory);
    fclose(fopen(file, "w"));
    assert_int_equal(lzt__token_writer_create(file, key, 4, &w, &err), LZT_ERR_STORAGE);
    assert_null(w);
    lzt__token_writer_destroy(NULL);
    lzt__token_cache_close(NULL);
    unlink(file);
}

/* What is left of a writer that was killed goes with the next one; what was not published goes with its writer. */
static void leftovers(void **state)
{
    (void)state;
    const lzt__token_key k = {{21, 22}};
    lzt__token_writer *w;
    lzt_error err = {0};
    pid_t child = fork();
    if (!child) {
        if (lzt__token_writer_create(directory, k, 4, &w, &err)) _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(lzt__token_writer_create(directory, k, 4, &w, &err), LZT_OK);
    lzt__token_writer_destroy(w);
    assert_int_equal(look(4, k, 0), 0);
    DIR *d = opendir(directory);
    for (struct dirent *e; (e = readdir(d));) assert_null(strstr(e->d_name, ".tmp-"));
    closedir(d);
}

static void several_processes_at_once(void **state)
{
    (void)state;
    enum { PROCESSES = 5, TIMES = 25 };
    const lzt__token_key k = {{31, 32}};
    pid_t child[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        child[p] = fork();
        if (child[p]) continue;
        int wrong = 0;
        for (int i = 0; i < TIMES; i++) {
            if (p % 2) (void)write_rows(200, k, 0); /* may find itself cleaned away: then it goes without */
            int seen = look(200, k, 0);
            wrong += seen == 3 || seen == 2;
        }
        _exit(wrong > 0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(child[p], &status, 0), child[p]);
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    assert_int_equal(write_rows(200, k, 0), LZT_OK);
    assert_int_equal(look(200, k, 0), 1);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return (int)lzt__os_remove_tree(lzt__os_posix(), AT_FDCWD, directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(any_damage_is_seen),
        cmocka_unit_test(a_directory_that_cannot_be_written),
        cmocka_unit_test(leftovers),
        cmocka_unit_test(several_processes_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
