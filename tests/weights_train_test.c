/* Goal: weights through the whole program. Weights of 0 and 1 are labels with and without loss, and a power of two on
 * all weights changes nothing, bit for bit, under every plan, device, accumulation and packing; the loss and the
 * gradient of a batch are sum(w x) / sum(w) of its rows' own; evaluation, resume and the cut into micro-batches keep to
 * it.
 *
 * Method: a small model with random weights; comparisons of final/ and of step 1's gradients (bits where bits are
 * promised), and of the parts of a batch, each run alone, added up here in double.
 */
#include "program_run.h"

#include <math.h>
#include <xxhash.h>

enum { ROWS = 6 };

static tiny model;

static int set_up(void **state)
{
    if (run_set_up(state)) return -1;
    tiny_init(&model);
    tiny_put(&model, "model");
    return 0;
}

static int tear_down(void **state)
{
    tiny_free(&model);
    return run_tear_down(state);
}

static void config(const char *keys)
{
    put_text("c.yaml",
             "dataset: rows.jsonl\nlearning_rate: 1e-3\nlr_scheduler_type: constant\ndisable_shuffling: true\n"
             "logging_steps: 1\nsave_steps: 0\nseed: 1\nweight_decay: 0.1\nmax_steps: 3\nmax_seq_length: 64\n%s",
             keys);
}

static void train(const char *directory, const char *overrides)
{
    char words[1024];
    snprintf(words, sizeof words, "train c.yaml --quiet --model_name_or_path model --output_dir %s %s", directory,
             overrides);
    must_run(words);
}

/* ---- rows ---- */

static int length_of(int row)
{
    return 3 + row * 5 % 11;
}

static int id_of(int row, int t)
{
    return 3 + (row * 31 + t * 17 + row * t) % 250;
}

/* Weights that are no powers of two, a 0 among them. */
static double odd_weight(int row, int t)
{
    return (row + 2 * t) % 5 == 4 ? 0 : (1 + row) * 0.3 + t * 0.07;
}

static double row_weight(int row, int t)
{
    (void)t;
    return 0.1 + row * 0.45;
}

static double zero_or_one(int row, int t)
{
    return odd_weight(row, t) > 0;
}

typedef double weight_fn(int row, int t);

/* Rows begin .. end-1. weight: NULL for rows that have none; labels: -100 where weight is 0, instead of weights */
static void put_rows(const char *name, int begin, int end, weight_fn *weight, double factor, bool labels)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    for (int r = begin; r < end; r++) {
        fprintf(f, "{\"input_ids\":[1");
        for (int t = 1; t < length_of(r); t++) fprintf(f, ",%d", id_of(r, t));
        fputs(weight ? labels ? "],\"labels\":[1" : "],\"loss_weights\":[1" : "]}\n", f);
        for (int t = 1; weight && t < length_of(r); t++)
            labels ? fprintf(f, ",%d", weight(r, t) > 0 ? id_of(r, t) : -100)
                   : fprintf(f, ",%.9g", (double)(float)weight(r, t) * factor);
        if (weight) fputs("]}\n", f);
    }
    fclose(f);
}

/* ---- bits ---- */

/* What the runs have: plans, devices, dtypes, accumulation, packing. */
static const char *const ways[] = {
    "--per_device_train_batch_size 3",
    "--per_device_train_batch_size 3 --bf16 true",
    "--per_device_train_batch_size 3 --memory.plan baseline --memory.checkpoint_interval 3",
    "--per_device_train_batch_size 3 --bf16 true --memory.plan baseline",
    "--per_device_train_batch_size 3 --bf16 true --device cpu-checked",
    "--per_device_train_batch_size 3 --memory.plan baseline --device cpu-checked",
    "--per_device_train_batch_size 1 --gradient_accumulation_steps 3",
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --bf16 true --device cpu-checked",
    "--per_device_train_batch_size 1 --packing true",
    "--per_device_train_batch_size 3 --numerics.loss_chunk 5",
};
enum { WAYS = sizeof ways / sizeof *ways };

static void same_run(const char *a, const char *b, int way, double factor)
{
    if (!same_model(a, b)) fail_msg("%s: other weights", ways[way]);
    for (int step = 0; step < 3; step++) {
        assert_true(value_of(a, step, "loss") == value_of(b, step, "loss"));
        assert_true(value_of(a, step, "grad_norm") == value_of(b, step, "grad_norm"));
        assert_true(value_of(a, step, "tokens_loss") == value_of(b, step, "tokens_loss"));
        assert_true(value_of(a, step, "loss_weight") * factor == value_of(b, step, "loss_weight"));
    }
}

static double one(int row, int t)
{
    (void)row, (void)t;
    return 1;
}

static void a_power_of_two_changes_nothing(void **state)
{
    (void)state;
    config("");
    for (int way = 0; way < WAYS; way++) {
        put_rows("rows.jsonl", 0, ROWS, NULL, 1, false);
        train("none", ways[way]);
        put_rows("rows.jsonl", 0, ROWS, one, 1, false);
        train("ones", ways[way]);
        same_run("none", "ones", way, 1);
        put_rows("rows.jsonl", 0, ROWS, one, 0.5, false);
        train("halves", ways[way]);
        same_run("none", "halves", way, 0.5);
        put_rows("rows.jsonl", 0, ROWS, odd_weight, 1, false);
        train("odd", ways[way]);
        assert_false(same_model("none", "odd")); /* that the comparison can fail */
        put_rows("rows.jsonl", 0, ROWS, odd_weight, 4, false);
        train("four", ways[way]);
        same_run("odd", "four", way, 4);
    }
}

static void zeros_and_ones_are_labels(void **state)
{
    (void)state;
    config("");
    for (int way = 0; way < WAYS; way++) {
        put_rows("rows.jsonl", 0, ROWS, zero_or_one, 1, true);
        train("labels", ways[way]);
        put_rows("rows.jsonl", 0, ROWS, zero_or_one, 1, false);
        train("weights", ways[way]);
        same_run("labels", "weights", way, 1);
        assert_true(value_of("labels", 0, "loss_weight") == value_of("labels", 0, "tokens_loss"));
    }
}

static void no_plan_changes_weighted_bits(void **state)
{
    (void)state;
    config("per_device_train_batch_size: 3\n");
    put_rows("rows.jsonl", 0, ROWS, odd_weight, 1, false);
    for (int d = 0; d < 2; d++) {
        const char *type = d ? "--bf16 true" : "--bf16 false";
        char words[256];
        train("free", type);
        static const char *const plans[] = {"--memory.plan baseline",
                                            "--memory.plan baseline --memory.checkpoint_interval 2",
                                            "--device cpu-checked", "--memory.plan baseline --device cpu-checked"};
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            snprintf(words, sizeof words, "%s %s", type, plans[i]);
            train("other", words);
            assert_true(same_model("free", "other"));
        }
    }
}

/* ---- values ---- */

static float *tensor_of(const char *file, const char *name, size_t *count)
{
    size_t bytes;
    uint64_t length;
    char *all = get_bytes(file, &bytes);
    if (!all) fail_msg("no %s", file);
    memcpy(&length, all, 8);
    json_t *header = json_loadb(all + 8, length, 0, NULL);
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
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

/* sum_i factor[i] file_i against file, relative to its norm, of one tensor. */
static double apart(const char *file, const char *name, const double *factor, int parts)
{
    size_t n, m;
    double d = 0, s = 0;
    float *got = tensor_of(file, name, &n);
    double *want = calloc(n, sizeof *want);
    for (int i = 0; i < parts; i++) {
        char part[32];
        snprintf(part, sizeof part, "part%d.st", i);
        float *values = tensor_of(part, name, &m);
        assert_int_equal(n, m);
        for (size_t k = 0; k < n; k++) want[k] += factor[i] * (double)values[k];
        free(values);
    }
    for (size_t k = 0; k < n; k++) d += pow((double)got[k] - want[k], 2), s += want[k] * want[k];
    free(want);
    free(got);
    return sqrt(d / (s > 0 ? s : 1));
}

/* The loss and the gradient of six rows with one weight each, from those of each row alone. */
static void a_batch_is_the_weighted_mean_of_its_rows(void **state)
{
    (void)state;
    double factor[ROWS], weight = 0, loss = 0, alone[ROWS];
    config("max_grad_norm: 0\n");
    for (int r = 0; r < ROWS; r++) {
        char words[64];
        put_rows("rows.jsonl", r, r + 1, NULL, 1, false);
        snprintf(words, sizeof words, "--max_steps 1 --dump-gradients part%d.st", r);
        train("part", words);
        alone[r] = value_of("part", 0, "loss");
        factor[r] = (double)(float)row_weight(r, 0) * (length_of(r) - 1);
        weight += factor[r];
    }
    for (int r = 0; r < ROWS; r++) {
        factor[r] /= weight;
        loss += factor[r] * alone[r];
    }
    put_rows("rows.jsonl", 0, ROWS, row_weight, 1, false);
    static const char *const cuts[] = {"--per_device_train_batch_size 6",
                                       "--per_device_train_batch_size 2 --gradient_accumulation_steps 3",
                                       "--per_device_train_batch_size 1 --gradient_accumulation_steps 6",
                                       "--per_device_train_batch_size 1 --packing true"};
    for (int i = 0; i < 4; i++) {
        char words[256];
        snprintf(words, sizeof words, "--max_steps 1 --dump-gradients all.st %s", cuts[i]);
        train("all", words);
        assert_true(fabs(value_of("all", 0, "loss") - loss) < 2e-6 * loss);
        assert_true(fabs(value_of("all", 0, "loss_weight") - weight) < 1e-12 * weight);
        for (int k = 0; k < model.count; k++) {
            double error = apart("all.st", model.tensor[k].name, factor, ROWS);
            if (!(error < 4e-6)) fail_msg("%s: %s is %g apart", cuts[i], model.tensor[k].name, error);
        }
    }
}

static double printed(const char *key)
{
    json_t *json = json_loads(run_out, 0, NULL);
    assert_non_null(json);
    double x = json_number_value(json_object_get(json, key));
    json_decref(json);
    return x;
}

/* The same of one row and its tokens, each of which alone is what labels leave of the row. */
static void a_row_is_the_weighted_mean_of_its_tokens(void **state)
{
    (void)state;
    enum { ROW = 1 };
    double weight = 0, loss = 0;
    int n = length_of(ROW);
    for (int only = 1; only < n; only++) {
        FILE *f = fopen(in_folder("rows.jsonl"), "wb");
        assert_non_null(f);
        fputs("{\"input_ids\":[1", f);
        for (int t = 1; t < n; t++) fprintf(f, ",%d", id_of(ROW, t));
        fputs("],\"labels\":[-100", f);
        for (int t = 1; t < n; t++) fprintf(f, ",%d", t == only ? id_of(ROW, t) : -100);
        fputs("]}\n", f);
        fclose(f);
        must_run("eval --model model --dataset rows.jsonl --json");
        assert_true(printed("tokens") == 1 && printed("loss") > 0.1);
        double w = (double)(float)odd_weight(ROW, only);
        weight += w;
        loss += w * printed("loss");
    }
    put_rows("rows.jsonl", ROW, ROW + 1, odd_weight, 1, false);
    must_run("eval --model model --dataset rows.jsonl --json");
    assert_true(fabs(printed("loss") - loss / weight) < 1e-6 * loss / weight);
}

static void evaluation_is_the_same_sum(void **state)
{
    (void)state;
    double weight = 0, loss = 0;
    for (int r = 0; r < ROWS; r++) {
        put_rows("rows.jsonl", r, r + 1, odd_weight, 1, false);
        must_run("eval --model model --dataset rows.jsonl --json");
        double of_row = printed("loss_weight");
        double sum = 0;
        for (int t = 1; t < length_of(r); t++) sum += (double)(float)odd_weight(r, t);
        assert_true(fabs(of_row - sum) < 1e-12 * sum);
        weight += of_row;
        loss += of_row * printed("loss");
        assert_true(fabs(printed("perplexity") - exp(printed("loss"))) < 1e-9 * printed("perplexity"));
    }
    put_rows("rows.jsonl", 0, ROWS, odd_weight, 1, false);
    for (int batch = 1; batch <= 4; batch += 3) {
        char words[128];
        snprintf(words, sizeof words, "eval --model model --dataset rows.jsonl --json --batch-size %d", batch);
        must_run(words);
        assert_true(fabs(printed("loss") - loss / weight) < 1e-6);
        assert_true(fabs(printed("loss_weight") - weight) < 1e-12 * weight);
    }
    /* the first four rows of a batch of six: what stays is weighed anew */
    must_run("eval --model model --dataset rows.jsonl --json --batch-size 6 --samples 4");
    double first = printed("loss"), of_first = printed("loss_weight");
    put_rows("rows.jsonl", 0, 4, odd_weight, 1, false);
    must_run("eval --model model --dataset rows.jsonl --json --batch-size 4");
    assert_true(printed("loss") == first && printed("loss_weight") == of_first);
    /* in training: eval_dataset's metrics, and the first step's loss on the same rows */
    config(
        "per_device_train_batch_size: 4\nper_device_eval_batch_size: 3\neval_dataset: rows.jsonl\neval_on_start: true\n"
        "eval_strategy: steps\neval_steps: 1\n");
    train("eval", "--max_steps 1 --learning_rate 0");
    assert_true(fabs(value_of("eval", 0, "loss") - first) < 1e-6);
    char *text = get_bytes("eval/metrics.jsonl", NULL);
    json_t *event = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(event);
    assert_true(fabs(json_number_value(json_object_get(event, "eval_loss")) - first) < 1e-6);
    assert_true(json_number_value(json_object_get(event, "eval_loss_weight")) == of_first);
    json_decref(event);
    free(text);
}

/* ---- resume ---- */

static void a_resumed_run_goes_on(void **state)
{
    (void)state;
    char words[512];
    config("per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\n");
    put_rows("rows.jsonl", 0, ROWS, odd_weight, 1, false);
    train("whole", "--max_steps 5 --save_steps 2");
    train("part", "--max_steps 4 --save_steps 2");
    train("part", "--max_steps 5 --save_steps 2");
    assert_true(value_of("part", 4, "loss") == value_of("whole", 4, "loss"));
    assert_true(same_model("whole", "part"));
    train("half", "--max_steps 2 --save_steps 2");
    put_rows("rows.jsonl", 0, ROWS, odd_weight, 0.5, false); /* the same run, and not the same rows */
    snprintf(words, sizeof words, "train c.yaml --quiet --model_name_or_path model --output_dir half --max_steps 5");
    assert_int_equal(run("%s", words), 2);
    assert_non_null(strstr(run_err, "row_loss_weight"));
}

/* The rows of the run that goes on: all sums as they were, in one row's weights, ids or labels a difference. */
static void must_refuse(const char *rows, const char *key)
{
    put_text("rows.jsonl", "%s", rows);
    int code = run("train c.yaml --quiet --model_name_or_path model --output_dir sums --max_steps 3");
    if (code != 2 || !strstr(run_err, key) || !strstr(run_err, "resume_from_checkpoint: none"))
        fail_msg("exit %d: %s", code, run_err);
}

#define FIRST  "{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.5,2]}\n"
#define SECOND "{\"input_ids\":[1,4,5],\"loss_weights\":[0,2,0.25]}\n"

static void rows_that_add_up_alike(void **state)
{
    (void)state;
    config("per_device_train_batch_size: 2\n");
    put_text("rows.jsonl", FIRST SECOND);
    train("sums", "--max_steps 2 --save_steps 2");
    must_refuse("{\"input_ids\":[1,2,3],\"loss_weights\":[0,2,0.5]}\n" SECOND, "row_digest");
    must_refuse("{\"input_ids\":[1,2,3],\"loss_weights\":[0,0.25,2]}\n"
                "{\"input_ids\":[1,4,5],\"loss_weights\":[0,2,0.5]}\n",
                "row_digest");
    must_refuse("{\"input_ids\":[1,6,3],\"loss_weights\":[0,0.5,2]}\n" SECOND, "row_digest");
    must_refuse("{\"input_ids\":[1,2,3],\"labels\":[-100,6,3],\"loss_weights\":[0,0.5,2]}\n" SECOND, "row_digest");
    must_refuse(SECOND FIRST, "row_digest");
    put_text("rows.jsonl", "[{\"loss_weights\":[0,1,4],\"input_ids\":[1,2,3],\"weight\":0.5},\n" SECOND "]");
    train("sums", "--max_steps 3"); /* the same rows from another kind of file */
}

/* A file above 256 MiB is known by its bytes: a line of blanks makes one. */
static void pad(void)
{
    FILE *f = fopen(in_folder("rows.jsonl"), "ab");
    assert_non_null(f);
    char *blank = malloc(1 << 20);
    memset(blank, ' ', 1 << 20);
    for (int i = 0; i < 257; i++) assert_int_equal(fwrite(blank, 1, 1 << 20, f), 1 << 20);
    free(blank);
    fclose(f);
}

static void rows_of_a_large_file(void **state)
{
    (void)state;
    config("per_device_train_batch_size: 2\n");
    put_text("rows.jsonl", FIRST SECOND);
    pad();
    train("large", "--max_steps 2 --save_steps 2");
    put_text("rows.jsonl", "{\"input_ids\":[1,2,3],\"loss_weights\":[0,2,0.5]}\n" SECOND);
    pad();
    assert_int_equal(run("train c.yaml --quiet --model_name_or_path model --output_dir large --max_steps 3"), 2);
    assert_non_null(strstr(run_err, "file_digest"));
    put_text("rows.jsonl", FIRST "\n" SECOND);
    pad();
    train("large", "--max_steps 3");
    put_text("rows.jsonl", "\n");
}

static void put_hash(char *to, const char *text, size_t size)
{
    char hex[33];
    XXH128_hash_t hash = XXH3_128bits(text, size);
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    memcpy(to, hex, 32);
}

/* Writes a version's manifest anew for another trainer.json (docs/formats/checkpoint.md). */
static void seal(const char *directory, const char *trainer)
{
    char name[128], text[8192];
    size_t size;
    snprintf(name, sizeof name, "%s/MANIFEST.json", directory);
    char *old = get_bytes(name, &size), *bytes = strstr(strstr(old, "\"trainer.json\""), "\"bytes\":");
    bytes = strpbrk(bytes, "0123456789");
    snprintf(text, sizeof text, "%.*s%zu%s", (int)(bytes - old), old, strlen(trainer),
             bytes + strspn(bytes, "0123456789"));
    put_hash(strstr(strstr(text, "\"trainer.json\""), "xxh3_128\": \"") + 12, trainer, strlen(trainer));
    put_hash(strstr(text, "manifest_xxh3_128\": \"") + 21, text, (size_t)(strrchr(text, ',') - text));
    put_bytes(name, text, strlen(text));
    free(old);
}

/* A checkpoint of before there were digests: its other fields are compared, and the user is told. */
static void a_checkpoint_without_digests(void **state)
{
    (void)state;
    char *text;
    json_error_t why;
    config("per_device_train_batch_size: 2\n");
    put_text("rows.jsonl", FIRST SECOND);
    train("old", "--max_steps 2 --save_steps 2");
    json_t *trainer = json_load_file(in_folder("old/checkpoints/step-2/trainer.json"), 0, &why);
    json_t *fields = json_object_get(trainer, "config");
    assert_int_equal(json_object_del(fields, "row_digest"), 0);
    assert_int_equal(json_object_del(fields, "file_digest"), 0);
    text = json_dumps(trainer, JSON_COMPACT | JSON_SORT_KEYS);
    put_text("old/checkpoints/step-2/trainer.json", "%s", text);
    seal("old/checkpoints/step-2", text);
    put_text("rows.jsonl", FIRST "{\"input_ids\":[1,4,5],\"loss_weights\":[0,2,0.5]}\n");
    assert_int_equal(run("train c.yaml --quiet --model_name_or_path model --output_dir old --max_steps 3"), 2);
    assert_non_null(strstr(run_err, "row_loss_weight"));
    put_text("rows.jsonl", SECOND FIRST);
    train("old", "--max_steps 3");
    assert_non_null(strstr(run_err, "by their counts only"));
    free(text);
    json_decref(trainer);
}

/* ---- the rows as they are shown and written ---- */

static void shown_and_written(void **state)
{
    (void)state;
    put_rows("rows.jsonl", 0, ROWS, odd_weight, 1, false);
    must_run("data inspect --dataset rows.jsonl --json");
    assert_true(printed("weighted_rows") == ROWS);
    double tokens = printed("weighted_tokens"), weight = printed("loss_weight");
    assert_true(tokens > 0 && tokens <= printed("trained_tokens") && weight > 0);
    must_run("data inspect --dataset rows.jsonl");
    assert_non_null(strstr(run_out, "weights         "));
    must_run("data inspect --dataset rows.jsonl --rows --json");
    char *text = strdup(run_out);
    assert_non_null(strstr(text, "\"loss_weights\""));
    put_text("shown.jsonl", "%s", text); /* what is shown is the same rows */
    must_run("data convert --dataset shown.jsonl --output written.jsonl");
    must_run("data inspect --dataset written.jsonl --rows --json");
    assert_string_equal(run_out, text);
    free(text);
    put_rows("rows.jsonl", 0, ROWS, one, 1, false);
    must_run("data inspect --dataset rows.jsonl --rows --json");
    assert_null(strstr(run_out, "loss_weights"));
    must_run("data inspect --dataset rows.jsonl");
    assert_null(strstr(run_out, "weights         "));
    put_text("rows.jsonl", "{\"input_ids\":[1,2]}\n{\"input_ids\":[1,2,3],\"loss_weights\":[1,0.5,-1]}\n");
    config("");
    assert_int_equal(run("train c.yaml --quiet --model_name_or_path model --output_dir none"), 4);
    assert_non_null(strstr(run_err, "rows.jsonl:2"));
    assert_non_null(strstr(run_err, "loss_weights[2] is -1, not a weight"));
    assert_non_null(strstr(run_err, "1e-9 to 1e9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_of_two_changes_nothing),
        cmocka_unit_test(zeros_and_ones_are_labels),
        cmocka_unit_test(no_plan_changes_weighted_bits),
        cmocka_unit_test(a_batch_is_the_weighted_mean_of_its_rows),
        cmocka_unit_test(a_row_is_the_weighted_mean_of_its_tokens),
        cmocka_unit_test(evaluation_is_the_same_sum),
        cmocka_unit_test(a_resumed_run_goes_on),
        cmocka_unit_test(rows_that_add_up_alike),
        cmocka_unit_test(rows_of_a_large_file),
        cmocka_unit_test(a_checkpoint_without_digests),
        cmocka_unit_test(shown_and_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
