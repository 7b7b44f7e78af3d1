/* Goal: the program's words, streams and exit codes are what scripts rely on. Method: the built program is run through
 * a shell; standard output, standard error and the exit code are compared with goldens in this file. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char program[4096], folder[64], out[65536], err[65536];

static void read_all(const char *name, char text[65536])
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    text[fread(text, 1, 65535, in)] = 0;
    fclose(in);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* The shell's exit code for one command line, or -1 for a signal. */
static int shell(const char *command)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

/* Runs the program with words (shell syntax, in the folder); returns the exit code. */
static int run(const char *words)
{
    char command[8192];
    snprintf(command, sizeof command, "cd %s && LC_ALL=de_DE.UTF-8 '%s' %s >out 2>err </dev/null", folder, program,
             words);
    int code = shell(command);
    read_all("out", out);
    read_all("err", err);
    return code;
}

static void refused(const char *words, int code, const char *text)
{
    int got = run(words);
    assert_string_equal(err, text);
    assert_int_equal(got, code);
    assert_string_equal(out, "");
}

static void data_on_stdout_talk_on_stderr(void **state)
{
    (void)state;
    assert_int_equal(run("--version"), 0);
    assert_int_equal(strncmp(out, "lazytrain ", 10), 0);
    assert_string_equal(err, "");
    assert_int_equal(run("version --json"), 0);
    json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json_object_get(json, "version"));
    json_decref(json);
}

static void help_begins_with_an_example(void **state)
{
    (void)state;
    static const char *const words[] = {"--help", "help", "-h", "version --help", "help version", "config show --help"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(run(words[i]), 0);
        assert_int_equal(strncmp(out, "Example:\n  lazytrain ", 21), 0);
        assert_string_equal(err, "");
    }
    assert_int_equal(run("version --help"), 0);
    assert_string_equal(out, "Example:\n"
                             "  lazytrain version --json\n\n"
                             "lazytrain version: print the version\n\n"
                             "Usage: lazytrain version [OPTION...]\n\n"
                             "Options:\n"
                             "  --json                      print one JSON document on standard output\n"
                             "  --help                      print this text\n");
}

static void usage_errors_exit_2(void **state)
{
    (void)state;
    refused("", 2, "lazytrain: a subcommand is missing\n  lazytrain --help lists the subcommands\n");
    refused("versoin", 2, "lazytrain: versoin: unknown subcommand\n  did you mean lazytrain version?\n");
    refused("qqqqqqqqqqqq", 2,
            "lazytrain: qqqqqqqqqqqq: unknown subcommand\n  lazytrain --help lists the subcommands\n");
    refused("config", 2, "lazytrain: config: needs a second word\n  lazytrain config has: show\n");
    refused("config sow", 2, "lazytrain: config sow: unknown subcommand\n  did you mean lazytrain config show?\n");
    refused("version --jsn", 2, "lazytrain: version: unknown option --jsn\n  did you mean --json?\n");
    refused("version 3", 2, "lazytrain: version: unexpected argument '3'\n  see lazytrain version --help\n");
    refused("config show", 2,
            "lazytrain: config show: CONFIG is missing\n"
            "  for example: lazytrain config show config.yaml --learning_rate 1e-5\n");
    refused("config show none.yaml", 2, err); /* text of the system: only the code and the streams */
}

static void config_errors_name_the_line(void **state)
{
    (void)state;
    write_file("c.yaml", "seed: 1\nlerning_rate: 2\n");
    refused("config show c.yaml", 2, "lazytrain: c.yaml:2: unknown key lerning_rate\n  did you mean learning_rate?\n");
    write_file("c.yaml", "seed: 1\n\nseed: 2\n");
    refused("config show c.yaml", 2, "lazytrain: c.yaml:3: seed is given twice: first on line 1, again here\n");
    write_file("c.yaml", "fp16: true\n");
    refused("config show c.yaml", 2, "lazytrain: c.yaml:1: fp16: true is not implemented yet\n  leave it at false\n");
}

static void config_show_says_where_values_come_from(void **state)
{
    (void)state;
    write_file("c.yaml", "learning_rate: 2e-5\nmemory:\n  device_cap: 1.5GiB\nflash_attn: fa2\n");
    assert_int_equal(run("config show c.yaml --seed=7 --save-steps 0"), 0);
    assert_string_equal(err, "note: flash_attn has no effect: Attention is always exact and in blocks.\n");
    assert_non_null(strstr(out, "\nlearning_rate: 2e-05                            # c.yaml:1\n"));
    assert_non_null(strstr(out, "\n  device_cap: 1536MiB                           # c.yaml:3\n"));
    assert_non_null(strstr(out, "\nseed: 7                                         # command line\n"));
    assert_non_null(strstr(out, "\nsave_steps: 0                                   # command line\n"));
    assert_non_null(strstr(out, "\nadam_beta1: 0.9                                 # default\n"));
}

static void a_full_disk_behind_stdout_is_exit_6(void **state)
{
    (void)state;
    char command[8192];
    if (access("/dev/full", W_OK)) skip();
    snprintf(command, sizeof command, "'%s' --help >/dev/full 2>/dev/null", program);
    assert_int_equal(shell(command), 6);
}

static const char metrics_a[] =
    "{\"schema\":1,\"step\":1,\"loss\":2.0,\"finite\":true,\"step_seconds\":4,\"tokens_real\":100,\"tokens_padded\":"
    "400,"
    "\"exposed_seconds\":{\"h2d\":1.0},\"busy_seconds\":{\"compute\":3.0},\"peak_device_bytes\":7}\n"
    "{\"schema\":1,\"step\":2,\"loss\":1.0,\"finite\":true,\"step_seconds\":2,\"tokens_real\":200,\"tokens_padded\":"
    "400,"
    "\"exposed_seconds\":{\"h2d\":0.5},\"busy_seconds\":{\"compute\":1.5},\"peak_device_bytes\":9}\n"
    "{\"schema\":1,\"event\":\"eval\",\"step\":2,\"eval_loss\":0.5,\"eval_tokens\":5}\n"
    "{\"schema\":1,\"step\":3,\"loss\":null,\"finite\":false,\"step_seconds\":2,\"tokens_real\":200,\"tokens_padded\":"
    "400,"
    "\"exposed_seconds\":{},\"busy_seconds\":{\"compute\":2},\"peak_device_bytes\":8}\n";

static void compare_puts_windows_side_by_side(void **state)
{
    (void)state;
    write_file("a.jsonl", metrics_a);
    assert_int_equal(run("compare a.jsonl a.jsonl --steps 2-100 --json"), 0);
    json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    const json_t *first = json_array_get(json_object_get(json, "runs"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "steps")), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "first_step")), 2);
    assert_true(json_number_value(json_object_get(first, "loss_mean")) == 1.0);
    assert_true(json_number_value(json_object_get(first, "tokens_real_per_second")) == 100);
    assert_int_equal(json_integer_value(json_object_get(first, "nonfinite_steps")), 1);
    assert_int_equal(json_integer_value(json_object_get(first, "peak_device_bytes")), 9);
    assert_true(json_number_value(json_object_get(json_object_get(first, "exposed_seconds"), "h2d")) == 0.25);
    json_decref(json);
    assert_int_equal(run("compare a.jsonl --last 1"), 0);
    assert_non_null(strstr(out, "step_seconds_median"));
    assert_int_equal(run("compare a.jsonl --steps 1-2"), 0);
    assert_non_null(strstr(out, "\nloss_mean                         1.5\n"));
    refused("compare a.jsonl --steps 5-9", 2, "lazytrain: a.jsonl: no step lies in the window\n");
    refused("compare a.jsonl --steps 2", 2,
            "lazytrain: --steps: '2' is not a range of steps\n  for example: --steps 2-100\n");
    refused("compare a.jsonl --steps 1-2 --last 3", 2, "lazytrain: --last: cannot be given with --steps\n");
}

static void report_is_one_offline_file(void **state)
{
    (void)state;
    char html[65536];
    write_file("metrics.jsonl", metrics_a);
    assert_int_equal(run("report . --output '<r>.html'"), 0);
    assert_string_equal(out, "<r>.html\n");
    read_all("<r>.html", html);
    assert_non_null(strstr(html, "<polyline"));
    assert_non_null(strstr(html, "<circle"));
    assert_non_null(strstr(html, "</html>"));
    assert_null(strstr(html, "http"));
    assert_null(strstr(html, "nan"));
}

static void trace_sums_lanes(void **state)
{
    (void)state;
    write_file(
        "trace-1.json",
        "{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"actual\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"compute\"}},"
        "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":500},"
        "{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":1500,\"dur\":500}]}");
    assert_int_equal(run("trace ."), 0);
    assert_string_equal(out, "process  lane     events  busy ms   share\n"
                             "actual   compute       2    1.000  50.0 %\n");
    assert_int_equal(run("trace trace-1.json --json"), 0);
    json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_number_value(json_object_get(json_array_get(json_object_get(json, "lanes"), 0), "busy_seconds")) ==
                0.001);
    json_decref(json);
    write_file("bad.json", "{}");
    refused("trace bad.json", 2, "lazytrain: bad.json: this is not a trace: no traceEvents\n");
}

static void completion_knows_commands_and_choices(void **state)
{
    (void)state;
    assert_int_equal(run("completion bash"), 0);
    write_file("c.bash", out);
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && bash -c 'source c.bash; COMP_WORDS=(lazytrain conf); COMP_CWORD=1; _lazytrain; "
             "echo ${COMPREPLY[@]}; COMP_WORDS=(lazytrain config s); COMP_CWORD=2; _lazytrain; echo ${COMPREPLY[@]}; "
             "COMP_WORDS=(lazytrain compare --st); COMP_CWORD=2; _lazytrain; echo ${COMPREPLY[@]}' >out 2>err",
             folder);
    assert_int_equal(shell(command), 0);
    read_all("out", out);
    assert_string_equal(out, "config\nshow\n--steps\n");
    assert_int_equal(run("completion zsh"), 0);
    assert_int_equal(run("completion fish"), 0);
    assert_int_equal(run("completion tcsh"), 2);
}

static int find_program(void **state)
{
    (void)state;
    char self[4000];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return -1;
    self[length] = 0;
    *strrchr(self, '/') = 0; /* BUILD/tests */
    *strrchr(self, '/') = 0; /* BUILD */
    snprintf(program, sizeof program, "%s/lazytrain", self);
    strcpy(folder, "/tmp/lzt-program-XXXXXX");
    return access(program, X_OK) || !mkdtemp(folder) ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return shell(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_on_stdout_talk_on_stderr),
        cmocka_unit_test(help_begins_with_an_example),
        cmocka_unit_test(usage_errors_exit_2),
        cmocka_unit_test(config_errors_name_the_line),
        cmocka_unit_test(config_show_says_where_values_come_from),
        cmocka_unit_test(a_full_disk_behind_stdout_is_exit_6),
        cmocka_unit_test(compare_puts_windows_side_by_side),
        cmocka_unit_test(report_is_one_offline_file),
        cmocka_unit_test(trace_sums_lanes),
        cmocka_unit_test(completion_knows_commands_and_choices),
    };
    return cmocka_run_group_tests(tests, find_program, remove_folder);
}
