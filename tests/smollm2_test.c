/* Goal: the smoke of a real model: SmolLM2-135M trains two steps on GSM8K rows with the losses of its reference run.
 *
 * Method: the program in F32 on examples/smollm2-gsm8k, eight rows a step in file order; the expected losses are those
 * of a float32 run of PyTorch. Needs the weights (`make demo-smollm2` makes them): in LZT_CACHE or ~/.cache/lazytrain;
 * without them the test says so and is skipped. Everything else about this model is `make accept`.
 */
#include "program_run.h"

#include <math.h>

static char model[4096];

/* Sanitizers make every instruction of a product slower: there one row, once, and only that it is finite. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STEPS = 1, ROWS = 1 };
#else
enum { STEPS = 2, ROWS = 8 };
#endif

static void first_steps(void **state)
{
    (void)state;
    static const double losses[] = {1.5115776062011719, 1.271506167948246};
    char words[16384], here[4096];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(words, sizeof words,
             "dataset: %s/examples/smollm2-gsm8k/train.jsonl\nmodel_name_or_path: %s\noutput_dir: out\nmax_steps: %d\n"
             "per_device_train_batch_size: %d\nlearning_rate: 1e-4\nlr_scheduler_type: constant\nweight_decay: 0.0\n"
             "disable_shuffling: true\nbf16: false\nsave_final: false\n",
             here, model, STEPS, ROWS);
    put_text("c.yaml", "%s", words);
    must_run("train c.yaml --quiet");
    for (int i = 0; i < STEPS; i++) {
        json_t *step = metrics_step("out", i);
        double loss = json_number_value(json_object_get(step, "loss"));
        assert_true(isfinite(loss));
        if (ROWS == 8 && !(fabs(loss - losses[i]) <= 1e-4))
            fail_msg("step %d: loss %.7f, not %.7f", i + 1, loss, losses[i]);
        json_decref(step);
    }
}

int main(void)
{
    const char *cache = getenv("LZT_CACHE"), *home = getenv("HOME");
    char weights[4200];
    if (cache)
        snprintf(model, sizeof model, "%s/smollm2-135m", cache);
    else
        snprintf(model, sizeof model, "%s/.cache/lazytrain/smollm2-135m", home ? home : "");
    snprintf(weights, sizeof weights, "%s/model.safetensors", model);
    if (access(weights, R_OK)) {
        printf("SKIPPED: %s is not there; make demo-smollm2 makes it\n", weights);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_steps)};
    return cmocka_run_group_tests(tests, run_set_up, run_tear_down);
}
