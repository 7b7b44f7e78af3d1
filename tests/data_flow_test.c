/* Goal: training goes on in the middle of a window of packed rows as if it had never stopped; its checkpoint holds
 * where the rows it trained on ended; once warm it does not wait for data.
 *
 * Method: a small model, 5,000 short rows (two windows), through the program. Weights are compared bit for bit.
 */
#include "program_run.h"

#include <math.h>

static void put_rows(int count, uint64_t seed, int vocab)
{
    uint64_t x = seed;
    FILE *file = fopen(in_folder("rows.jsonl"), "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        fputs("{\"input_ids\":[1", file);
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        for (int k = (int)(x % 15); k >= 0; k--) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            fprintf(file, ",%d", (int)(x % (uint64_t)vocab));
        }
        fputs("]}\n", file);
    }
    fclose(file);
}

static void config(void)
{
    put_text("c.yaml", "model_name_or_path: model\ndataset: rows.jsonl\nlearning_rate: 1e-3\n"
                       "lr_scheduler_type: constant\nseed: 3\nmax_seq_length: 64\nper_device_train_batch_size: 2\n"
                       "gradient_accumulation_steps: 2\nsave_steps: 7\nlogging_steps: 1\n");
}

static json_t *trainer_json(const char *directory, int step)
{
    char name[128];
    snprintf(name, sizeof name, "%s/checkpoints/step-%d/trainer.json", directory, step);
    json_t *j = json_load_file(in_folder(name), 0, NULL);
    assert_non_null(j);
    return j;
}

/* Runs whole, and in two halves; returns where the checkpoint between them stood. */
static json_t *whole_and_halved(const char *keys, const char *length, int half)
{
    char words[512];
    snprintf(words, sizeof words, "rm -rf %s/whole %s/halves", run_folder, run_folder);
    assert_int_equal(shell(words), 0);
    snprintf(words, sizeof words, "train c.yaml --quiet --output_dir whole %s %s", keys, length);
    must_run(words);
    snprintf(words, sizeof words, "train c.yaml --quiet --output_dir halves %s --max_steps %d", keys, half);
    must_run(words);
    snprintf(words, sizeof words, "train c.yaml --output_dir halves %s %s", keys, length);
    must_run(words);
    snprintf(words, sizeof words, "going on from step %d", half);
    assert_non_null(strstr(run_err, words));
    assert_true(same_model("whole", "halves"));
    json_t *j = trainer_json("halves", half), *k = trainer_json("whole", half);
    assert_true(json_equal(j, k));
    json_decref(k);
    return j;
}

static json_int_t number(const json_t *j, const char *a, const char *b, const char *c)
{
    j = json_object_get(j, a);
    if (b) j = json_object_get(j, b);
    if (c) j = json_object_get(j, c);
    assert_true(json_is_integer(j));
    return json_integer_value(j);
}

static void packed_in_the_middle_of_a_window(void **state)
{
    (void)state;
    tiny t = {0};
    tiny_init(&t);
    tiny_put(&t, "model");
    put_rows(5000, 77, t.vocab);
    config();
    json_t *j = whole_and_halved("--packing true", "--max_steps 21", 14);
    assert_int_equal(number(j, "config", "position", "epoch"), 0);
    assert_int_equal(number(j, "config", "position", "window"), 0);
    assert_int_equal(number(j, "config", "position", "pack"), 14 * 4);
    assert_true(number(j, "rows_seen", NULL, NULL) > 14 * 4 * 4); /* some five rows a pack */
    json_decref(j);
    /* other rows of the same number are refused, and the directory is as it was */
    put_rows(5000, 78, t.vocab);
    assert_int_equal(run("train c.yaml --quiet --output_dir halves --packing true --max_steps 28"), 2);
    assert_non_null(strstr(run_err, "row_tokens"));
    assert_false(exists("halves/checkpoints/step-28"));
    put_rows(5000, 77, t.vocab);
    assert_int_equal(run("train c.yaml --quiet --output_dir halves --max_steps 28"), 2);
    assert_non_null(strstr(run_err, "packing"));
    tiny_free(&t);
}

/* The second window and the second epoch: 300 rows make an epoch of some 80 packs. */
static void packed_across_epochs(void **state)
{
    (void)state;
    put_rows(300, 79, 32);
    json_t *j = whole_and_halved("--packing true", "--num_train_epochs 2.5", 21);
    assert_int_equal(number(j, "config", "position", "epoch"), 1);
    json_decref(j);
}

static void grouped_by_length(void **state)
{
    (void)state;
    put_rows(5000, 80, 32);
    json_t *j = whole_and_halved("--group_by_length true", "--max_steps 21", 14);
    assert_int_equal(number(j, "config", "position", "window"), 0);
    assert_int_equal(number(j, "config", "position", "pack"), 14 * 4);
    assert_int_equal(number(j, "rows_seen", NULL, NULL), 14 * 4);
    json_decref(j);
    assert_int_equal(run("train c.yaml --quiet --output_dir halves --max_steps 28"), 2);
    assert_non_null(strstr(run_err, "group_by_length"));
    assert_int_equal(run("train c.yaml --quiet --output_dir no --group_by_length true --packing true"), 2);
    assert_non_null(strstr(run_err, "exclude"));
}

/* Batches are made ahead. That a step which finds its batch made does not wait is feed_test's; here the machine may
 * keep the thread from being ahead now and then, never every time. */
static void warm_steps_do_not_wait(void **state)
{
    (void)state;
    json_t *step;
    int waited = 0, steps = 0;
    put_rows(5000, 77, 32);
    must_run("train c.yaml --quiet --output_dir waits --packing true --max_steps 12 --save_steps 0 "
             "--memory.compute_slowdown 5");
    for (; (step = metrics_step("waits", steps)); steps++) {
        json_int_t n = number(step, "data_waits", NULL, NULL);
        double seconds = json_number_value(json_object_get(step, "data_wait_seconds"));
        assert_true(n ? seconds > 0 : seconds == 0);
        if (steps > 0) waited += n > 0; /* the first step is warm-up */
        json_decref(step);
    }
    assert_int_equal(steps, 12);
    if (waited == steps - 1) fail_msg("each of %d steps waited for its data", waited);
}

/* One token a character, beside the model. */
static void put_tokenizer(void)
{
    FILE *f = fopen(in_folder("model/tokenizer.json"), "w");
    assert_non_null(f);
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0120\":0,\"\\u010a\":1", f);
    for (int c = 33; c < 127; c++) fprintf(f, ",\"%s%c\":%d", c == '"' || c == '\\' ? "\\" : "", c, c - 31);
    fputs("},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
          "\"decoder\":{\"type\":\"ByteLevel\"}}",
          f);
    assert_int_equal(fclose(f), 0);
}

/* Made by data tokenize, found by train, made anew when damaged, and not there when it is switched off: the same model
 * every time. */
static void kept_rows(void **state)
{
    (void)state;
    char command[512];
    FILE *f = fopen(in_folder("pairs.jsonl"), "w");
    for (int i = 0; i < 40; i++) fprintf(f, "{\"question\":\"%d+%d?\",\"answer\":\"%d\"}\n", i, i, 2 * i);
    fclose(f);
    put_tokenizer();
    put_text("k.yaml", "model_name_or_path: model\ndataset: pairs.jsonl\nmax_steps: 4\nsave_steps: 0\n"
                       "output_dir: off\ntokenized_path: none\n");
    must_run("train k.yaml");
    assert_null(strstr(run_err, "kept"));
    put_text("k.yaml", "model_name_or_path: model\ndataset: pairs.jsonl\nmax_steps: 4\nsave_steps: 0\n"
                       "output_dir: kept\ntokenized_path: rows\n");
    must_run("data tokenize --config k.yaml --json");
    json_t *j = json_loads(run_out, 0, NULL), *train = json_object_get(j, "train");
    assert_string_equal(json_string_value(json_object_get(train, "cache")), "made");
    assert_int_equal(json_integer_value(json_object_get(train, "rows_out")), 40);
    must_run("train k.yaml");
    assert_non_null(strstr(run_err, "rows as kept in"));
    assert_true(same_model("off", "kept"));
    snprintf(command, sizeof command, "printf x | dd of=%s/%s bs=1 seek=100 conv=notrunc 2>/dev/null", run_folder,
             json_string_value(json_object_get(train, "path")));
    assert_int_equal(shell(command), 0);
    must_run("train k.yaml --quiet --output_dir anew");
    assert_non_null(strstr(run_err, "damaged"));
    assert_true(same_model("off", "anew"));
    must_run("train k.yaml --output_dir again");
    assert_non_null(strstr(run_err, "rows as kept in"));
    assert_true(same_model("off", "again"));
    json_decref(j);
    assert_int_equal(run("data tokenize"), 2);
    assert_int_equal(run("data tokenize --config k.yaml --tokenizer model"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_in_the_middle_of_a_window),
        cmocka_unit_test(packed_across_epochs),
        cmocka_unit_test(grouped_by_length),
        cmocka_unit_test(kept_rows),
        cmocka_unit_test(warm_steps_do_not_wait),
    };
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
