/* Goal: what breaks for others when they train with offload, as small scenarios through the program: accumulation, odd
 * sizes, tied weights, short rows, small datasets, non-finite rows, frozen tensors, evaluation, explicit zeros.
 *
 * Method: small models with random weights, a config, and comparisons of final/ (bits), of step 1's gradients
 * (--dump-gradients), and of metrics.jsonl.
 */
#include "program_run.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>

static void fresh(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", run_folder);
    assert_int_equal(shell(command), 0);
}

static void new_model(tiny *t, const char *directory)
{
    tiny_init(t);
    tiny_put(t, directory);
}

/* count rows with 2 + (5 i mod longest) random tokens below vocab, but never the id rare. */
static void put_rows(const char *name, int count, int longest, int vocab, int rare)
{
    uint64_t x = 12345;
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        fputs("{\"input_ids\":[1", file);
        for (int k = 0; k < 1 + 5 * i % longest; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            int id = (int)(x % (uint64_t)vocab);
            fprintf(file, ",%d", id == rare ? id - 1 : id);
        }
        fputs("]}\n", file);
    }
    fclose(file);
}

/* c.yaml with these keys alone added to what every case needs. */
static void config(const char *keys)
{
    put_text("c.yaml",
             "dataset: rows.jsonl\nlearning_rate: 1e-3\nlr_scheduler_type: constant\ndisable_shuffling: true\n"
             "logging_steps: 1\nsave_steps: 0\nseed: 1\nweight_decay: 0.1\n%s",
             keys);
}

/* Trains into directory with overrides; must succeed. */
static void train(const char *directory, const char *overrides)
{
    char words[1024];
    snprintf(words, sizeof words, "train c.yaml --quiet --model_name_or_path model --output_dir %s %s", directory,
             overrides);
    must_run(words);
}

/* A tensor of a file that the program wrote, as F32; the caller frees it. */
static float *tensor_of(const char *file, const char *name, size_t *count)
{
    size_t bytes;
    char *all = get_bytes(file, &bytes);
    if (!all) fail_msg("no %s", file);
    uint64_t length;
    memcpy(&length, all, 8);
    json_t *header = json_loadb(all + 8, length, 0, NULL);
    json_t *entry = json_object_get(header, name);
    if (!entry) fail_msg("%s: no %s", file, name);
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
    json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    float *values = malloc(end - begin);
    assert_non_null(values);
    memcpy(values, all + 8 + length + begin, end - begin);
    *count = (end - begin) / 4;
    json_decref(header);
    free(all);
    return values;
}

/* The relative L2 difference of one tensor in two files. */
static double apart(const char *file, const char *other, const char *name)
{
    size_t n, m;
    float *a = tensor_of(file, name, &n), *b = tensor_of(other, name, &m);
    double d = 0, s = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]), s += (double)b[i] * b[i];
    free(a);
    free(b);
    return s > 0 ? sqrt(d / s) : d;
}

static void gradients_agree(const tiny *t, const char *file, const char *other, double bound)
{
    for (int i = 0; i < t->count; i++) {
        double error = apart(file, other, t->tensor[i].name);
        if (!(error <= bound)) fail_msg("%s: %s and %s are %g apart", t->tensor[i].name, file, other, error);
    }
}

/* ---- one global batch, however it is cut ---- */

static void accumulation_is_the_same_batch(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 6, 17, t.vocab, -1); /* of unequal length: tokens are weighed, not rows */
    config("max_steps: 2\n");
    train("whole", "--per_device_train_batch_size 6 --dump-gradients whole.st");
    train("three", "--per_device_train_batch_size 2 --gradient_accumulation_steps 3 --dump-gradients three.st");
    train("six", "--per_device_train_batch_size 1 --gradient_accumulation_steps 6 --dump-gradients six.st");
    gradients_agree(&t, "three.st", "whole.st", 2e-6);
    gradients_agree(&t, "six.st", "whole.st", 2e-6);
    for (int step = 0; step < 2; step++) {
        double loss = value_of("whole", step, "loss"), norm = value_of("whole", step, "grad_norm");
        assert_true(fabs(value_of("three", step, "loss") - loss) < 2e-6 * loss);
        assert_true(fabs(value_of("six", step, "loss") - loss) < 2e-6 * loss);
        assert_true(fabs(value_of("six", step, "grad_norm") - norm) < 1e-5 * norm);
        assert_true(value_of("six", step, "tokens_loss") == value_of("whole", step, "tokens_loss"));
    }
    tiny_free(&t);
}

/* ---- sizes that are multiples of nothing ---- */

static void odd_sizes_under_any_plan(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"false", "true"};
    for (int tied = 0; tied < 2; tied++) {
        tiny t = {.hidden = 60, .heads = 6, .kv_heads = 2, .head_dim = 10, .ffn = 161, .vocab = 263, .tied = tied};
        fresh();
        new_model(&t, "model");
        put_rows("rows.jsonl", 8, 23, t.vocab, -1);
        config("max_steps: 4\nper_device_train_batch_size: 2\n");
        for (int d = 0; d < 2; d++) {
            char overrides[256];
            snprintf(overrides, sizeof overrides, "--bf16 %s", dtypes[d]);
            train("free", overrides);
            snprintf(overrides, sizeof overrides, "--bf16 %s --memory.plan baseline --memory.checkpoint_interval 3",
                     dtypes[d]);
            train("baseline", overrides);
            assert_true(same_model("baseline", "free"));
            snprintf(overrides, sizeof overrides, "--bf16 %s --memory.plan baseline --device cpu-checked", dtypes[d]);
            train("checked", overrides);
            assert_true(same_model("checked", "free"));
            assert_true(isfinite(value_of("free", 3, "loss")));
        }
        tiny_free(&t);
    }
}

/* ---- tied weights are one parameter whose gradient is the sum of both uses ---- */

static void tied_gradient_is_the_sum(void **state)
{
    (void)state;
    tiny tied = {.tied = true}, untied = {0};
    fresh();
    new_model(&tied, "model");
    put_rows("rows.jsonl", 4, 20, tied.vocab, -1);
    config("max_steps: 3\nper_device_train_batch_size: 4\n");
    train("tied", "--dump-gradients tied.st");
    tiny_init(&untied);
    tiny_tensor *head = tiny_find(&untied, "lm_head.weight");
    memcpy(untied.data, tied.data, (size_t)tied.bytes);
    memcpy(untied.data + head->begin / 4, untied.data, (size_t)(head->end - head->begin));
    tiny_put(&untied, "model");
    train("untied", "--dump-gradients untied.st");
    assert_true(fabs(value_of("tied", 0, "loss") - value_of("untied", 0, "loss")) < 1e-6);
    size_t n, m, k;
    float *sum = tensor_of("tied.st", "model.embed_tokens.weight", &n);
    float *a = tensor_of("untied.st", "model.embed_tokens.weight", &m);
    float *b = tensor_of("untied.st", "lm_head.weight", &k);
    double d = 0, s = 0;
    assert_true(n == m && m == k);
    for (size_t i = 0; i < n; i++) d += pow((double)sum[i] - a[i] - b[i], 2), s += (double)sum[i] * sum[i];
    assert_true(sqrt(d / s) < 1e-6);
    free(sum);
    free(a);
    free(b);
    tiny_free(&untied);
    /* What comes out is tied again, and loads to the same loss. */
    must_run("eval --model tied/final --dataset rows.jsonl --json");
    json_t *json = json_loads(run_out, 0, NULL);
    double loss = json_number_value(json_object_get(json, "loss"));
    json_decref(json);
    config("max_steps: 1\nper_device_train_batch_size: 4\n");
    must_run("train c.yaml --quiet --model_name_or_path tied/final --output_dir again");
    assert_true(fabs(value_of("again", 0, "loss") - loss) < 1e-6);
    tiny_free(&tied);
}

/* ---- short rows, few rows, no steps ---- */

static void short_rows(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_text("rows.jsonl",
             "{\"input_ids\":[1,7]}\n{\"input_ids\":[5]}\n{\"input_ids\":[1,2]}\n{\"input_ids\":[9,8,7]}\n");
    config("per_device_train_batch_size: 2\nnum_train_epochs: 2\n");
    train("a", "");
    train("b", "--memory.plan baseline");
    assert_true(same_model("a", "b"));
    for (int i = 0; i < 4; i++) {
        json_t *step = metrics_step("a", i);
        if (!step) break;
        assert_true(json_number_value(json_object_get(step, "tokens_loss")) > 0);
        assert_true(isfinite(json_number_value(json_object_get(step, "loss"))));
        json_decref(step);
    }
    tiny_free(&t);
}

/* Three rows and batches of four: an epoch is one step on three rows, never zero steps. */
static void batch_larger_than_the_dataset(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 3, 9, t.vocab, -1);
    config("num_train_epochs: 1\n");
    train("four", "--per_device_train_batch_size 4");
    train("three", "--per_device_train_batch_size 3");
    assert_true(same_model("four", "three"));
    assert_null(metrics_step("four", 1));
    train("accumulated", "--per_device_train_batch_size 1 --gradient_accumulation_steps 4");
    assert_true(fabs(value_of("accumulated", 0, "loss") - value_of("three", 0, "loss")) < 1e-5);
    assert_null(metrics_step("accumulated", 1));
    tiny_free(&t);
}

static void no_steps_change_nothing(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 3, 9, t.vocab, -1);
    config("max_steps: 0\nper_device_train_batch_size: 2\n");
    train("out", "");
    assert_null(metrics_step("out", 0));
    for (int i = 0; i < t.count; i++)
        assert_true(apart("out/final/model.safetensors", "model/model.safetensors", t.tensor[i].name) == 0);
    put_text(
        "c.yaml",
        "dataset: rows.jsonl\nmax_steps: 2\nper_device_train_batch_size: 2\nlearning_rate: 0\nweight_decay: 0.1\n");
    train("still", "");
    assert_true(same_model("out", "still"));
    tiny_free(&t);
}

/* ---- a row that is not finite ---- */

/* Rows 1..6, the third with the rare id; row 0 of these: the same without it. */
static void put_rare_rows(int rare, bool with)
{
    put_rows("rows.jsonl", 6, 11, 250, rare);
    char *text = get_bytes("rows.jsonl", NULL), *save = NULL;
    FILE *file = fopen(in_folder("rows.jsonl"), "wb");
    assert_non_null(file);
    int i = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), i++) {
        if (i == 2 && with) fprintf(file, "{\"input_ids\":[1,4,%d,6,7]}\n", rare);
        if (i != 2) fprintf(file, "%s\n", line);
    }
    fclose(file);
    free(text);
}

static void check_skipped(const tiny *t, const char *plan, bool bf16)
{
    (void)t;
    char overrides[256];
    const char *type = bf16 ? "true" : "false";
    put_rare_rows(255, true);
    snprintf(overrides, sizeof overrides, "--bf16 %s --memory.plan %s --max_steps 6", type, plan);
    train("with", overrides);
    put_rare_rows(255, false);
    snprintf(overrides, sizeof overrides, "--bf16 %s --memory.plan %s --max_steps 5", type, plan);
    train("without", overrides);
    assert_true(same_model("with", "without"));
    json_t *bad = metrics_step("with", 2);
    assert_true(json_is_false(json_object_get(bad, "finite")));
    assert_true(json_is_null(json_object_get(bad, "loss")));
    assert_int_equal(json_integer_value(json_object_get(bad, "nonfinite_steps")), 1);
    assert_int_equal(json_integer_value(json_object_get(bad, "skipped_steps")), 1);
    json_decref(bad);
    for (int i = 0; i < 5; i++) {
        int j = i < 2 ? i : i + 1;
        assert_true(value_of("with", j, "loss") == value_of("without", i, "loss"));
        assert_true(value_of("with", j, "grad_norm") == value_of("without", i, "grad_norm"));
        if (i < 2 || j > 2) assert_true(value_of("with", j, "lr") == value_of("without", i, "lr"));
    }
    assert_true(value_of("with", 5, "nonfinite_steps") == 1);
}

static void a_nonfinite_row_is_as_if_absent(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY};
    for (int b = 0; b < 2; b++) {
        tiny t = {0};
        fresh();
        tiny_init(&t);
        for (int k = 0; k < t.hidden; k++) t.data[255 * t.hidden + k] = bad[b];
        tiny_put(&t, "model");
        put_text("c.yaml", "dataset: rows.jsonl\nlearning_rate: 1e-3\nlr_scheduler_type: constant_with_warmup\n"
                           "warmup_steps: 4\ndisable_shuffling: true\nlogging_steps: 1\nweight_decay: 0.1\n"
                           "per_device_train_batch_size: 1\n");
        check_skipped(&t, "auto", false);
        check_skipped(&t, "baseline", true);
        tiny_free(&t);
    }
}

/* Two micro-batches a step, the bad one first, then last: the step is skipped, and its other half leaves nothing. */
static void a_half_bad_step_leaves_nothing(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    tiny_init(&t);
    for (int k = 0; k < t.hidden; k++) t.data[255 * t.hidden + k] = NAN;
    tiny_put(&t, "model");
    config("per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\n");
    static const char *const bad[] = {"{\"input_ids\":[1,255,6]}\n{\"input_ids\":[1,9,9]}\n",
                                      "{\"input_ids\":[1,9,9]}\n{\"input_ids\":[1,255,6]}\n", ""};
    for (int i = 0; i < 3; i++) {
        put_text("rows.jsonl",
                 "{\"input_ids\":[1,3,4]}\n{\"input_ids\":[1,5,4]}\n%s{\"input_ids\":[1,8,4]}\n"
                 "{\"input_ids\":[1,12,4,9]}\n",
                 bad[i]);
        char name[2] = {(char)('a' + i), 0};
        train(name, "--num_train_epochs 1");
    }
    assert_true(same_model("a", "c") && same_model("b", "c"));
    tiny_free(&t);
}

static void too_many_nonfinite_steps_are_exit_7(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    tiny_init(&t);
    for (int k = 0; k < t.hidden; k++) t.data[255 * t.hidden + k] = NAN;
    tiny_put(&t, "model");
    put_text("rows.jsonl", "{\"input_ids\":[1,255,6]}\n");
    config("per_device_train_batch_size: 1\nmax_steps: 20\nmax_nonfinite_steps: 3\n");
    assert_int_equal(run("train c.yaml --quiet --model_name_or_path model --output_dir out"), 7);
    assert_non_null(strstr(run_err, "max_nonfinite_steps"));
    assert_true(value_of("out", 2, "nonfinite_steps") == 3);
    assert_null(metrics_step("out", 3));
    assert_false(exists("out/final"));
    tiny_free(&t);
}

/* ---- frozen tensors ---- */

static void frozen_tensors_shift_nothing(void **state)
{
    (void)state;
    static const char frozen[] = "model.layers.2.input_layernorm.weight";
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 4, 15, t.vocab, -1);
    config("per_device_train_batch_size: 4\nmax_steps: 2\nmax_grad_norm: 0\n");
    train("free", "--dump-gradients free.st");
    train("frozen", "--freeze model.layers.2.input_layernorm.weight --dump-gradients frozen.st --device cpu-checked");
    for (int i = 0; i < t.count; i++) {
        const char *name = t.tensor[i].name;
        if (!strcmp(name, frozen)) continue;
        if (apart("frozen.st", "free.st", name) != 0) fail_msg("%s: another gradient", name);
    }
    assert_true(apart("frozen/final/model.safetensors", "model/model.safetensors", frozen) == 0);
    assert_true(apart("free/final/model.safetensors", "model/model.safetensors", frozen) > 0);
    assert_true(value_of("frozen", 0, "grad_norm") < value_of("free", 0, "grad_norm"));
    tiny_free(&t);
}

/* A frozen tensor has no moments on disk; a resumed run ends with the bits of the undisturbed one, and not with another
 * list of frozen tensors. */
static void frozen_tensors_are_resumed(void **state)
{
    (void)state;
    static const char keys[] = "--freeze model.layers.*.mlp.* --save_steps 2 --save_total_limit 4";
    char words[512];
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 8, 15, t.vocab, -1);
    config("per_device_train_batch_size: 2\nmax_steps: 4\n");
    train("whole", keys);
    snprintf(words, sizeof words, "%s --device cpu-checked", keys); /* what is touched is what was declared */
    train("checked", words);
    assert_true(same_model("whole", "checked"));
    must_run("train c.yaml --quiet --model_name_or_path model --output_dir free --save_steps 2 --save_total_limit 4");
    snprintf(words, sizeof words,
             "cd %s && test $(du -bs whole/checkpoints/step-2 | cut -f1) -lt $(du -bs "
             "free/checkpoints/step-2 | cut -f1)",
             run_folder);
    assert_int_equal(shell(words), 0);
    snprintf(words, sizeof words, "%s --resume_from_checkpoint %s", keys, in_folder("whole/checkpoints/step-2"));
    train("resumed", words);
    assert_true(same_model("whole", "resumed"));
    snprintf(words, sizeof words,
             "train c.yaml --quiet --model_name_or_path model --output_dir other --resume_from_checkpoint %s",
             in_folder("whole/checkpoints/step-2"));
    assert_int_equal(run("%s", words), 2);
    assert_non_null(strstr(run_err, "the checkpoint was made with frozen"));
    tiny_free(&t);
}

/* ---- evaluation ---- */

static double eval_loss(const char *more, double *tokens)
{
    char words[256];
    snprintf(words, sizeof words, "eval --model model --dataset rows.jsonl --json %s", more);
    must_run(words);
    json_t *json = json_loads(run_out, 0, NULL);
    double loss = json_number_value(json_object_get(json, "loss"));
    *tokens = json_number_value(json_object_get(json, "tokens"));
    assert_true(fabs(json_number_value(json_object_get(json, "perplexity")) / exp(loss) - 1) < 1e-9);
    json_decref(json);
    return loss;
}

static void evaluation_is_independent_of_its_batches(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 11, 60, t.vocab, -1);
    double tokens, all, first = eval_loss("--batch-size 1", &all);
    static const char *const sizes[] = {"2", "3", "4", "11", "16"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char more[64];
        snprintf(more, sizeof more, "--batch-size %s", sizes[i]);
        assert_true(fabs(eval_loss(more, &tokens) - first) < 1e-6);
        assert_true(tokens == all);
    }
    /* Evaluating changes nothing in training, however often and in whatever batches. */
    put_rows("eval.jsonl", 7, 40, t.vocab, -1);
    put_text("c.yaml", "dataset: rows.jsonl\nlearning_rate: 1e-3\nlogging_steps: 1\nper_device_train_batch_size: 2\n"
                       "max_steps: 4\nseed: 3\n");
    train("never", "");
    train("often", "--eval_dataset eval.jsonl --eval_steps 1 --per_device_eval_batch_size 3");
    assert_true(same_model("never", "often"));
    tiny_free(&t);
}

/* ---- the schedule, clipping, and the seed reach the run ---- */

static void settings_reach_the_run(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 8, 15, t.vocab, -1);
    put_text("c.yaml", "dataset: rows.jsonl\nlearning_rate: 2E-05\nlr_scheduler_type: linear\nwarmup_steps: 2\n"
                       "max_steps: 6\nper_device_train_batch_size: 2\nseed: 1\n");
    train("a", "");
    static const double shares[] = {0.0, 0.5, 1.0, 0.75, 0.5, 0.25};
    for (int i = 0; i < 6; i++) assert_true(fabs(value_of("a", i, "lr") - 2e-5 * shares[i]) < 1e-18);
    static const char *const other[] = {
        "--seed 2",           "--adam_beta1 0.5",     "--adam_beta2 0.9", "--adam_epsilon 1e-3",
        "--weight_decay 0.5", "--max_grad_norm 0.01", "--warmup_steps 0"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        train("b", other[i]);
        if (same_model("a", "b")) fail_msg("%s has no effect", other[i]);
    }
    train("b", "--learning_rate 0.00002 --memory.link_gbps 1");
    assert_true(same_model("a", "b"));
    tiny_free(&t);
}

/* ---- a run that is refused ---- */

static void a_refused_run_leaves_the_directory_alone(void **state)
{
    (void)state;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 6, 15, t.vocab, -1);
    put_rows("others.jsonl", 4, 9, t.vocab, -1);
    config("max_steps: 2\nper_device_train_batch_size: 2\n");
    train("out", "--save_steps 2");
    char command[256];
    snprintf(command, sizeof command, "cp -r %s/out %s/before", run_folder, run_folder);
    assert_int_equal(shell(command), 0);
    static const char *const other[] = {"--dataset others.jsonl", "--bf16 true", "--data_seed 7"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        int code =
            run("train c.yaml --quiet --model_name_or_path model --output_dir out --save_steps 2 --max_steps 4 %s",
                other[i]);
        assert_int_equal(code, 2);
        snprintf(command, sizeof command, "diff -r %s/before %s/out", run_folder, run_folder);
        if (shell(command)) fail_msg("%s is refused, and changes the run's files", other[i]);
    }
    tiny_free(&t);
}

/* ---- two runs, one directory ---- */

/* Starts a long run into out and waits until it has made its steps' file. */
static pid_t start_long_run(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion ends this test before it does */
        if (chdir(run_folder) || !freopen("/dev/null", "w", stderr)) _exit(126);
        execl(run_program_path, "lazytrain", "train", "c.yaml", "--quiet", "--model_name_or_path", "model",
              "--output_dir", "out", (char *)NULL);
        _exit(127);
    }
    while (!exists("out/metrics.jsonl")) { /* however long it takes: it ends, or makes the file */
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        usleep(20000);
    }
    return child;
}

static void one_run_a_directory(void **state)
{
    (void)state;
    static const char again[] = "train c.yaml --quiet --model_name_or_path model --output_dir out --max_steps 1";
    int status;
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 6, 15, t.vocab, -1);
    config("max_steps: 1000000\nper_device_train_batch_size: 2\n");
    pid_t first = start_long_run(); /* which made the directory itself */
    assert_int_equal(run(again), 6);
    assert_non_null(strstr(run_err, "out: another run is writing there"));
    assert_non_null(strstr(run_err, "output_dir"));
    assert_int_equal(run("train c.yaml --model_name_or_path model --output_dir out --dry-run"), 0); /* writes nothing */
    must_run("train c.yaml --quiet --model_name_or_path model --output_dir other --max_steps 1");
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(waitpid(first, &status, 0), first);
    must_run(again);
    int fd = open(in_folder("out"), O_RDONLY); /* a directory that was there before */
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(run(again), 6);
    close(fd);
    must_run(again);
    tiny_free(&t);
}

/* A limit on the size of files ends no run by a signal: it is a write that fails. */
static void a_file_above_its_limit_is_exit_6(void **state)
{
    (void)state;
    char command[9000];
    tiny t = {0};
    fresh();
    new_model(&t, "model");
    put_rows("rows.jsonl", 6, 15, t.vocab, -1);
    config("max_steps: 1\nper_device_train_batch_size: 2\n");
    snprintf(command, sizeof command,
             "cd %s && ulimit -f 64; '%s' train c.yaml --quiet --model_name_or_path model --output_dir out >stdout "
             "2>stderr",
             run_folder, run_program_path);
    assert_int_equal(shell(command), 6);
    read_stream("stderr", run_err);
    if (!strstr(run_err, "File too large")) fail_msg("%s", run_err);
    assert_false(exists("out/final"));
    train("out", "");
    tiny_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulation_is_the_same_batch),
        cmocka_unit_test(odd_sizes_under_any_plan),
        cmocka_unit_test(tied_gradient_is_the_sum),
        cmocka_unit_test(short_rows),
        cmocka_unit_test(batch_larger_than_the_dataset),
        cmocka_unit_test(no_steps_change_nothing),
        cmocka_unit_test(a_nonfinite_row_is_as_if_absent),
        cmocka_unit_test(a_half_bad_step_leaves_nothing),
        cmocka_unit_test(too_many_nonfinite_steps_are_exit_7),
        cmocka_unit_test(frozen_tensors_shift_nothing),
        cmocka_unit_test(frozen_tensors_are_resumed),
        cmocka_unit_test(evaluation_is_independent_of_its_batches),
        cmocka_unit_test(settings_reach_the_run),
        cmocka_unit_test(a_refused_run_leaves_the_directory_alone),
        cmocka_unit_test(one_run_a_directory),
        cmocka_unit_test(a_file_above_its_limit_is_exit_6),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
