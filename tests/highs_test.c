/* Goal: the time limit of a solution by HiGHS holds whatever HiGHS does, its answer is honest, and a HiGHS that
 * crashes, that somebody ends, or that is none, is an error that says so; nothing is left of it in any case.
 *
 * Method: a library in HiGHS's place (fake_highs.c) that never returns, crashes, leaves, answers late, lacks a function
 * or has another version; files that are no library; the program, and signals to it and to its child. */
#include "program_run.h"

#include "base/leftovers.h"
#include "lazytrain/solve.h"
#include "solve/random_problem.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#define LIMIT_S 0.5

/* Fifty layers of equal boundaries, of which there are plans. */
static void make_problem(lzt_problem *p)
{
    for (uint64_t seed = 0;; seed++) {
        lzt__dice dice = {seed, 3};
        lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
        lzt_solve_result result;
        lzt_tier boundary[64];
        lzt__random_problem(&dice, 50, false, p);
        options.solver = LZT_SOLVER_DP;
        assert_int_equal(lzt_solve(p, &options, boundary, &result, NULL), LZT_OK);
        if (result.status == LZT_PLAN_OPTIMAL) return;
        lzt_problem_fini(p);
    }
}

/* Solves with the library in that mood; afterwards there are no children, and no more descriptors. */
static lzt_status solve(const char *mood, bool cold, double limit_s, lzt_solve_result *r, lzt_error *err)
{
    lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
    lzt_problem p;
    lzt_tier boundary[64];
    int files = lzt__open_files();
    make_problem(&p);
    options.solver = LZT_SOLVER_HIGHS;
    options.time_limit_s = limit_s;
    options.highs_library = LZT_FAKE_HIGHS_LIBRARY;
    options.cold_start = cold;
    *err = (lzt_error){0};
    assert_int_equal(setenv("LZT_FAKE_HIGHS", mood, 1), 0);
    lzt_status status = lzt_solve(&p, &options, boundary, r, err);
    lzt__expect_nobody(files);
    lzt_problem_fini(&p);
    return status;
}

/* Neither a model that is never taken in nor a solution that never ends keeps us. */
static void the_limit_holds(void **state)
{
    (void)state;
    static const char *const moods[] = {"pass", "run"};
    for (int k = 0; k < 2; k++) {
        lzt_solve_result r;
        lzt_error err;
        assert_int_equal(solve(moods[k], true, LIMIT_S, &r, &err), LZT_OK);
        print_message("%s: limit %.1f s and %.1f s of grace, ended after %.3f s\n", moods[k], LIMIT_S,
                      LZT_SOLVE_GRACE_S, r.solve_seconds);
        assert_int_equal(r.status, LZT_PLAN_LIMIT);
        assert_string_equal(r.solver, "highs");
        assert_true(r.solve_seconds >= LIMIT_S);
        double limit_s = LIMIT_S; /* a quarter is the start's: more of it until the machine finds one in that time */
        do assert_int_equal(solve(moods[k], false, limit_s, &r, &err), LZT_OK);
        while (r.status == LZT_PLAN_LIMIT && (limit_s *= 4) < 100);
        /* what it began from is the answer */
        assert_true(r.status == LZT_PLAN_FEASIBLE || r.status == LZT_PLAN_OPTIMAL);
        assert_true(r.bound_ps <= r.objective_ps);
        assert_true((r.status == LZT_PLAN_OPTIMAL) == (r.bound_ps == r.objective_ps));
    }
}

static void a_late_answer_is_no_plan(void **state)
{
    (void)state;
    lzt_solve_result r;
    lzt_error err;
    assert_int_equal(solve("late", true, 3600, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
    assert_int_equal(solve("late", true, 0, &r, &err), LZT_OK);
    assert_int_equal(r.status, LZT_PLAN_LIMIT);
}

static void an_end_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *mood;
        lzt_status status;
        const char *says;
    } cases[] = {{"crash", LZT_ERR_INTERNAL, "crashed with signal 6"},
                 {"leave", LZT_ERR_INTERNAL, "ended without an answer"},
                 {"killed", LZT_ERR_NO_MEMORY, "was killed"},
                 {"ended", LZT_ERR_INTERRUPTED, "was ended by signal 15 (Terminated), which somebody sent"},
                 {"refuse", LZT_ERR_INTERNAL, "HiGHS refuses the model"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int limit = 0; limit < 2; limit++) {
            lzt_solve_result r;
            lzt_error err;
            assert_int_equal(solve(cases[i].mood, false, limit ? 3600 : 0, &r, &err), cases[i].status);
            assert_non_null(strstr(err.message, cases[i].says));
            assert_non_null(strstr(err.hint, "--solver dp"));
        }
}

/* ---- a library that is none ---- */

/* Three layers whose boundaries differ: where it is left to us, HiGHS solves it. */
static void make_unequal(lzt_problem *p)
{
    assert_int_equal(lzt_problem_init(p, 3, NULL), LZT_OK);
    p->max_segment = 4;
    for (int t = 0; t < 3; t++) p->budget_bytes[t] = 1000;
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) p->bytes_per_s[pool] = 1000;
    for (uint64_t i = 0; i <= 3; i++) p->boundary_bytes[i] = 10 + i;
}

/* Opened through the option, or through $LZT_HIGHS; with the solver named, or left to us. */
static void expect_refused(const char *library, const char *says)
{
    for (int way = 0; way < 4; way++) {
        lzt_solve_options options = LZT_SOLVE_OPTIONS_INIT;
        lzt_problem p;
        lzt_solve_result r;
        lzt_error err = {0};
        lzt_tier boundary[4];
        int files = lzt__open_files();
        make_unequal(&p);
        options.solver = way & 1 ? LZT_SOLVER_HIGHS : LZT_SOLVER_AUTO;
        if (way & 2) options.highs_library = library;
        assert_int_equal(setenv("LZT_HIGHS", way & 2 ? "/elsewhere/libhighs.so" : library, 1), 0);
        assert_int_equal(lzt_solve(&p, &options, boundary, &r, &err), LZT_ERR_USAGE);
        assert_string_equal(err.where, "HiGHS");
        if (strncmp(err.message, library, strlen(library)) || !strstr(err.message, says))
            fail_msg("\"%s\" does not name \"%s\" and say \"%s\"", err.message, library, says);
        assert_non_null(strstr(err.message, way & 2 ? " (--highs-library) " : " ($LZT_HIGHS) "));
        assert_non_null(strstr(err.hint, "tools/install-highs"));
        assert_non_null(strstr(err.hint, "--solver dp"));
        assert_int_equal(lzt__open_files(), files);
        lzt_problem_fini(&p);
    }
}

static void a_wrong_library_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *version, *says;
    } versions[] = {{"1.4.2", "is HiGHS 1.4.2, not 1.5 or a later 1"},
                    {"2.0.0", "is HiGHS 2.0.0, not 1.5 or a later 1"},
                    {"soon", "is HiGHS soon, not 1.5"}};
    char path[128];
    const char *before = getenv("LZT_HIGHS");
    char *kept = before ? strdup(before) : NULL;
    assert_int_equal(setenv("LZT_FAKE_HIGHS", "run", 1), 0);
    put_text("text.so", "no library at all");
    put_text("empty.so", "%s", "");
    snprintf(path, sizeof path, "%s", in_folder("text.so"));
    expect_refused(path, "cannot be loaded: ");
    expect_refused(in_folder("empty.so"), "cannot be loaded: file too short");
    expect_refused("/nowhere/libhighs.so", "cannot be loaded: cannot open shared object file: No such file");
    expect_refused("/tmp", "cannot be loaded: ");
    expect_refused(LZT_FAKE_HIGHS_PART_LIBRARY, "lacks the function Highs_setSolution");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        assert_int_equal(setenv("LZT_FAKE_HIGHS_VERSION", versions[i].version, 1), 0);
        expect_refused(LZT_FAKE_HIGHS_LIBRARY, versions[i].says);
    }
    unsetenv("LZT_FAKE_HIGHS_VERSION");
    assert_int_equal(setenv("LZT_FAKE_HIGHS", "wide", 1), 0);
    expect_refused(LZT_FAKE_HIGHS_LIBRARY, "was built with integers of 8 bytes, not 4");
    if (kept)
        setenv("LZT_HIGHS", kept, 1);
    else
        unsetenv("LZT_HIGHS");
    free(kept);
}

/* ---- the program ---- */

static const char *plan_words(const char *more)
{
    static char words[6000];
    char model[4096];
    assert_non_null(realpath("examples/qwen3.6-27b-metamathqa/model", model));
    snprintf(words, sizeof words,
             "plan --model %.1000s --cpu-activation-budget-gb 14 --time-limit-sec 0 --solver highs %s", model, more);
    return words;
}

static void the_program_names_it_too(void **state)
{
    (void)state;
    put_text("text.so", "no library at all");
    assert_int_equal(run("%s", plan_words("--highs-library text.so --output p.json")), 2);
    assert_non_null(strstr(run_err, "HiGHS: ./text.so (--highs-library) cannot be loaded: "));
    assert_non_null(strstr(run_err, "tools/install-highs"));
    assert_false(exists("p.json"));
}

static void wait_a_little(void)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
}

/* The only child of a process, or 0. */
static pid_t child_of(pid_t parent)
{
    char path[64];
    long pid = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &pid) != 1) pid = 0;
    fclose(file);
    return (pid_t)pid;
}

/* Whether the process has ended: it is gone, or only waits to be asked. */
static bool has_ended(pid_t pid)
{
    char path[64], name[64], letter = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return true;
    if (fscanf(file, "%*d (%63[^)]) %c", name, &letter) != 2) letter = 'Z';
    fclose(file);
    return letter == 'Z';
}

/* Plans with a HiGHS that never answers; *solver gets its process. */
static pid_t start_plan(pid_t *solver)
{
    char command[9000];
    snprintf(command, sizeof command, "cd %s && exec %s %s >stdout 2>stderr </dev/null", run_folder, run_program_path,
             plan_words("--output kept.json --highs-library " LZT_FAKE_HIGHS_LIBRARY));
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        setenv("LZT_FAKE_HIGHS", "run", 1);
        signal(SIGTERM, SIG_DFL); /* whoever runs the tests may ignore them */
        signal(SIGINT, SIG_DFL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (*solver = 0; !*solver; *solver = child_of(parent)) {
        assert_int_equal(waitpid(parent, NULL, WNOHANG), 0);
        wait_a_little();
    }
    return parent;
}

/* The file of before, and nothing beside it. */
static void expect_untouched(void)
{
    char *text = get_bytes("kept.json", NULL);
    assert_string_equal(text, "as it was");
    free(text);
    char command[128];
    snprintf(command, sizeof command, "ls %s/kept.json.* >/dev/null 2>&1", run_folder);
    assert_int_not_equal(shell(command), 0);
}

static void a_signal_to_its_child_is_told(void **state)
{
    (void)state;
    pid_t solver;
    int status;
    put_text("kept.json", "as it was");
    pid_t parent = start_plan(&solver);
    while (child_of(parent) == solver) { /* it may still be about to become what the signal ends */
        kill(solver, SIGTERM);
        wait_a_little();
    }
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
    read_stream("stderr", run_err);
    assert_non_null(strstr(run_err, "HiGHS: was ended by signal 15 (Terminated), which somebody sent to it"));
    assert_null(strstr(run_err, "crash"));
    expect_untouched();
}

static void a_signal_to_the_program_ends_both(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        pid_t solver;
        int status;
        put_text("kept.json", "as it was");
        pid_t parent = start_plan(&solver);
        assert_int_equal(kill(parent, numbers[i]), 0);
        assert_int_equal(waitpid(parent, &status, 0), parent);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        while (!has_ended(solver)) wait_a_little();
        expect_untouched();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(a_late_answer_is_no_plan),
        cmocka_unit_test(an_end_is_an_error),
        cmocka_unit_test(a_wrong_library_is_named),
        cmocka_unit_test(the_program_names_it_too),
        cmocka_unit_test(a_signal_to_its_child_is_told),
        cmocka_unit_test(a_signal_to_the_program_ends_both),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
