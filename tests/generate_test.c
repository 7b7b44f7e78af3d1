/* Goal: generation over the key-value cache gives the ids of running the whole text again for each new one, bit for bit
 * in the logits, whatever else is in the batch, under every placement, cache shape and timing; and a cap is kept.
 *
 * Method: the small families (q/k norm, biases, grouped heads, a sliding window) in F32 and BF16. The reference is
 * PREFILL of the whole text so far, one document, an id at a time. Then nine prompts of unequal lengths through caches
 * of other shapes, random plans and the checked device. Last, the 201 greedy ids of a real model (LZT_DATA).
 */
#include "base/rng.h"
#include "golden_run.h"

static const char *const families[] = {"qwen3", "qwen2.5", "llama3", "mistral"};

enum { PROMPTS = 9, LONGEST = 17, NEW = 12, TOKENS = 64 };

typedef struct work {
    int32_t prompt[PROMPTS][LONGEST], out[PROMPTS][NEW];
    lzt_sequence sequence[PROMPTS];
} work;

/* Prompts of 1 .. LONGEST ids; the last asks for a single one, the one before for none. */
static void fill(work *w, const lzt_model_info *info)
{
    static const uint64_t lengths[PROMPTS] = {5, 1, LONGEST, 9, 2, 13, 7, 4, 3};
    for (uint64_t i = 0; i < PROMPTS; i++) {
        for (uint64_t k = 0; k < lengths[i]; k++)
            w->prompt[i][k] = (int32_t)lzt__rng_below(17, (uint32_t)i, k, (uint32_t)info->vocabulary);
        w->sequence[i] = (lzt_sequence){.prompt = w->prompt[i],
                                        .prompt_count = lengths[i],
                                        .max_new = i == PROMPTS - 2   ? 0
                                                   : i == PROMPTS - 1 ? 1
                                                                      : NEW,
                                        .out = w->out[i]};
    }
}

static engine_choice choose(lzt_dtype dtype, uint64_t sequences, uint64_t prompt_tokens, bool keep)
{
    return (engine_choice){.dtype = dtype,
                           .capacity = TOKENS,
                           .micro_batches = 1,
                           .drop_dependency = -1,
                           .inference = true,
                           .cache = {sequences, LONGEST + NEW, prompt_tokens, keep}};
}

/* One document through a program; the id, and the logits where they are wanted. */
static int32_t run_one(lzt_engine *engine, lzt_variant variant, const int32_t *ids, uint64_t count, uint64_t position,
                       float *logits)
{
    int32_t all[TOKENS], positions[TOKENS], begin[2] = {0, (int32_t)count}, place = 0;
    lzt_engine_info info;
    lzt_run_result result;
    lzt_error err = {0};
    lzt_engine_get_info(engine, &info);
    for (uint64_t i = 0; i < count; i++) {
        all[i] = ids[i];
        positions[i] = (int32_t)(position + i);
    }
    lzt_micro_batch batch = {.capacity = TOKENS,
                             .ids = all,
                             .position = positions,
                             .document_begin = begin,
                             .token_count = count,
                             .document_count = 1};
    lzt_engine_set_sequences(engine, variant, &batch, &place);
    if (lzt_engine_run(engine, variant, &result, &err)) fail_msg("%s: %s", err.where, err.message);
    if (logits) memcpy(logits, result.logits, info.model->vocabulary * sizeof *logits);
    return result.ids[0];
}

static void same_bits_as_the_whole_text(void **state)
{
    (void)state;
    for (size_t f = 0; f < 8; f++) {
        char path[64];
        lzt_error err = {0};
        lzt_model *model;
        snprintf(path, sizeof path, "tests/golden/%s", families[f / 2]);
        if (lzt_model_open(path, LZT_MODEL_WANT_WEIGHTS, &model, &err)) fail_msg("%s", err.message);
        engine_choice choice = choose(f % 2 ? LZT_DTYPE_BF16 : LZT_DTYPE_F32, 2, LONGEST + NEW, f % 3 > 0);
        choice.logits = true;
        lzt_engine *cached = engine_for(model, &choice), *whole = engine_for(model, &choice);
        const lzt_model_info *info = lzt_model_get_info(model);
        float *a = malloc(info->vocabulary * 4), *b = malloc(info->vocabulary * 4);
        int32_t text[LONGEST + NEW];
        uint64_t count = 6;
        for (uint64_t i = 0; i < count; i++) text[i] = (int32_t)lzt__rng_below(5, 0, i, (uint32_t)info->vocabulary);
        text[count] = run_one(cached, LZT_VARIANT_PREFILL, text, count, 0, a);
        for (uint64_t made = 0; count + 1 < LONGEST + NEW; made++) {
            assert_int_equal(run_one(whole, LZT_VARIANT_PREFILL, text, count, 0, b), text[count]);
            if (memcmp(a, b, info->vocabulary * 4))
                fail_msg("%s: other logits after %d new ids", families[f / 2], (int)made);
            count++;
            text[count] = run_one(cached, LZT_VARIANT_DECODE, &text[count - 1], 1, count - 1, a);
        }
        free(a);
        free(b);
        lzt_engine_destroy(cached);
        lzt_engine_destroy(whole);
        lzt_model_close(model);
    }
}

/* ---- many sequences ---- */

static void random_plan(const lzt_model_info *info, uint64_t seed, const engine_choice *choice, lzt_plan *plan)
{
    lzt_error err = {0};
    lzt_numerics numerics;
    lzt_numerics_default(info, choice->dtype, choice->capacity, 1, 2, &numerics);
    assert_int_equal(lzt_plan_baseline(info, &numerics, 1, plan, &err), LZT_OK);
    for (uint64_t i = 0; i < plan->layer_count; i++) plan->weights[i] = lzt__rng_below(seed, 3, i, 2) == 0;
    plan->head_weights = lzt__rng_below(seed, 4, 0, 2);
    plan->prefetch_layers = 1 + lzt__rng_below(seed, 5, 0, 4);
}

static void generate_all(lzt_engine *engine, work *w)
{
    lzt_error err = {0};
    lzt_generate_result result;
    if (lzt_generate(engine, w->sequence, PROMPTS, NULL, &result, &err)) fail_msg("%s: %s", err.where, err.message);
    uint64_t made = 0;
    for (int i = 0; i < PROMPTS; i++) made += w->sequence[i].made;
    assert_int_equal(result.new_tokens, made);
}

static void check_same(const work *a, const work *b, const char *what)
{
    for (int i = 0; i < PROMPTS; i++) {
        const lzt_sequence *x = &a->sequence[i], *y = &b->sequence[i];
        if (x->made != y->made || x->ended != y->ended || memcmp(x->out, y->out, x->made * 4))
            fail_msg("%s: sequence %d has other ids", what, i);
    }
}

static void check_device(lzt_engine *engine, const char *what)
{
    lzt_dev_info device;
    lzt_engine_info info;
    lzt_finding f = {0};
    lzt_dev_get_info(lzt_engine_dev(engine), &device);
    lzt_engine_get_info(engine, &info);
    assert_true(device.peak_bytes[LZT_SPACE_DEVICE] <= info.planned_bytes[LZT_SPACE_DEVICE]);
    if (!lzt_dev_finding_count(lzt_engine_dev(engine))) return;
    lzt_dev_finding(lzt_engine_dev(engine), 0, &f);
    fail_msg("%s: %s and %s, kind %d", what, f.first, f.second, (int)f.kind);
}

/* The whole text again for each new id, a sequence at a time. */
static void reference(lzt_model *model, const engine_choice *choice, work *w)
{
    const lzt_model_info *info = lzt_model_get_info(model);
    lzt_engine *engine = engine_for(model, choice);
    for (int i = 0; i < PROMPTS; i++) {
        lzt_sequence *s = &w->sequence[i];
        int32_t text[LONGEST + NEW];
        memcpy(text, s->prompt, s->prompt_count * 4);
        for (s->made = 0; s->made < s->max_new && !s->ended; s->made++) {
            int32_t id = run_one(engine, LZT_VARIANT_PREFILL, text, s->prompt_count + s->made, 0, NULL);
            s->out[s->made] = text[s->prompt_count + s->made] = id;
            for (int e = 0; e < info->eos_id_count; e++) s->ended = s->ended || info->eos_id[e] == id;
        }
    }
    lzt_engine_destroy(engine);
}

static void check_family(const char *family, lzt_dtype dtype, uint64_t first_seed)
{
    char path[64];
    lzt_error err = {0};
    lzt_model *model;
    work expected, made;
    snprintf(path, sizeof path, "tests/golden/%s", family);
    if (lzt_model_open(path, LZT_MODEL_WANT_WEIGHTS, &model, &err)) fail_msg("%s", err.message);
    const lzt_model_info *info = lzt_model_get_info(model);
    engine_choice whole = choose(dtype, 1, LONGEST + NEW, false);
    fill(&expected, info);
    reference(model, &whole, &expected);
    /* again with an end-of-sequence id that comes in the middle of a sequence */
    lzt_model_info *changed = (lzt_model_info *)(uintptr_t)info;
    changed->eos_id[0] = expected.out[2][NEW / 2];
    changed->eos_id_count = 1;
    fill(&expected, info);
    reference(model, &whole, &expected);
    assert_true(expected.sequence[2].ended && expected.sequence[2].made <= NEW / 2 + 1);
    static const struct {
        uint64_t sequences, prompt_tokens;
        bool keep, checked;
    } shapes[] = {{1, LONGEST, false, false},
                  {2, LONGEST + 3, true, true},
                  {4, TOKENS, false, true},
                  {PROMPTS, TOKENS, true, false},
                  {5, LONGEST, true, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char what[64];
        lzt_plan plan;
        engine_choice choice = choose(dtype, shapes[i].sequences, shapes[i].prompt_tokens, shapes[i].keep);
        choice.checked = shapes[i].checked;
        choice.seed = first_seed + i;
        random_plan(info, first_seed + i, &choice, &plan);
        choice.plan = &plan;
        snprintf(what, sizeof what, "%s, shape %d", family, (int)i);
        lzt_engine *engine = engine_for(model, &choice);
        for (int again = 0; again < 2; again++) { /* the second time over a used cache */
            fill(&made, info);
            generate_all(engine, &made);
            check_same(&made, &expected, what);
        }
        check_device(engine, what);
        lzt_engine_destroy(engine);
        lzt_plan_fini(&plan);
    }
    lzt_model_close(model);
}

static void neighbours_and_placement_do_not_show(void **state)
{
    (void)state;
    check_family("qwen3", LZT_DTYPE_BF16, 1);
    check_family("mistral", LZT_DTYPE_F32, 20);
    check_family("qwen2.5", LZT_DTYPE_F32, 40);
}

/* Training, evaluation and generation take turns on one engine. */
static void generation_between_steps(void **state)
{
    (void)state;
    golden g;
    golden_open(&g, "tests/golden/llama3");
    engine_choice choice = choose(LZT_DTYPE_F32, 3, LONGEST, true);
    choice.inference = false;
    choice.capacity = g.batch.token_count > TOKENS ? g.batch.token_count : TOKENS;
    choice.checked = true;
    lzt_engine *engine = engine_for(g.model, &choice), *quiet = engine_for(g.model, &choice);
    lzt_run_result result, other;
    work w;
    for (uint64_t step = 1; step <= 3; step++) {
        fill(&w, g.info);
        train_step(engine, &g.batch, step, &result);
        generate_all(engine, &w);
        train_step(quiet, &g.batch, step, &other);
        assert_true(result.loss_sum == other.loss_sum);
    }
    check_device(engine, "generation between steps");
    lzt_engine_destroy(engine);
    lzt_engine_destroy(quiet);
    golden_close(&g);
}

/* ---- the cap ---- */

static void cache_fits_the_cap(void **state)
{
    (void)state;
    lzt_model *model;
    lzt_error err = {0};
    lzt_kern_cpu_options kernels = LZT_KERN_CPU_OPTIONS_INIT;
    lzt_kern *kern;
    lzt_numerics numerics;
    lzt_plan plan;
    kernels.threads = 2;
    assert_int_equal(lzt_model_open("tests/golden/llama3", LZT_MODEL_WANT_WEIGHTS, &model, &err), LZT_OK);
    assert_int_equal(lzt_kern_cpu_create(&kernels, &kern, &err), LZT_OK);
    lzt_numerics_default(lzt_model_get_info(model), LZT_DTYPE_F32, TOKENS, 1, 2, &numerics);
    lzt_auto_options options = {
        .model = lzt_model_get_info(model), .numerics = &numerics, .kern = kern, .micro_batches = 1};
    assert_int_equal(lzt_auto_plan(&options, &plan, &err), LZT_OK);
    lzt_cache_shape wanted = {.sequences = 40, .length = 200, .prompt_tokens = LONGEST}, shape;
    assert_int_equal(lzt_cache_fit(&options, &plan, &wanted, &shape, &err), LZT_OK);
    assert_int_equal(shape.sequences, 40);
    assert_true(shape.keep_weights && shape.prompt_tokens == TOKENS);
    options.device_cap_bytes = 1;
    assert_int_equal(lzt_cache_fit(&options, &plan, &wanted, &shape, &err), LZT_ERR_NO_PLAN);
    unsigned long long least = 0;
    assert_int_equal(sscanf(err.message, "device_cap: needs at least %llu bytes", &least), 1);
    options.device_cap_bytes = least - 1;
    assert_int_equal(lzt_cache_fit(&options, &plan, &wanted, &shape, &err), LZT_ERR_NO_PLAN);
    assert_non_null(strstr(err.message, ", 1 more than are allowed"));
    uint64_t before = 0;
    for (uint64_t cap = least; cap < 40 * least && before < 40; cap += least / 2) {
        options.device_cap_bytes = cap;
        assert_int_equal(lzt_cache_fit(&options, &plan, &wanted, &shape, &err), LZT_OK);
        assert_true(shape.sequences >= 1 && shape.sequences >= before && shape.length == 200);
        before = shape.sequences;
    }
    assert_int_equal(before, 40);
    lzt_plan_fini(&plan);
    lzt_kern_destroy(kern);
    lzt_model_close(model);
}

static void what_does_not_fit_the_cache_is_refused(void **state)
{
    (void)state;
    lzt_model *model;
    lzt_error err = {0};
    int32_t prompt[LONGEST + 1] = {0}, out[NEW + 2];
    assert_int_equal(lzt_model_open("tests/golden/llama3", LZT_MODEL_WANT_WEIGHTS, &model, &err), LZT_OK);
    engine_choice choice = choose(LZT_DTYPE_F32, 1, LONGEST, false);
    lzt_engine *engine = engine_for(model, &choice);
    lzt_sequence bad[] = {{.prompt = prompt, .prompt_count = 0, .max_new = 1, .out = out},
                          {.prompt = prompt, .prompt_count = LONGEST + 1, .max_new = 1, .out = out},
                          {.prompt = prompt, .prompt_count = LONGEST, .max_new = NEW + 2, .out = out},
                          {.prompt = prompt, .prompt_count = 2, .max_new = 1, .out = out}};
    prompt[1] = INT32_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lzt_generate(engine, &bad[i], 1, NULL, NULL, &err), LZT_ERR_USAGE);
    volatile sig_atomic_t stop = 1;
    prompt[1] = 1;
    assert_int_equal(lzt_generate(engine, &bad[3], 1, &stop, NULL, &err), LZT_ERR_INTERRUPTED);
    lzt_engine_destroy(engine);
    lzt_model_close(model);
}

/* ---- a real model ---- */

static void golden_ids_of_stories(void **state)
{
    (void)state;
    const char *data = getenv("LZT_DATA");
    char directory[512], path[600];
    lzt_error err = {0};
    lzt_model *model;
    json_error_t problem;
    if (!data) data = "../shared/data";
    snprintf(directory, sizeof directory, "%s/models/stories260k-hf", data);
    snprintf(path, sizeof path, "%s/models/stories260k/golden.json", data);
    if (lzt_model_open(directory, LZT_MODEL_WANT_WEIGHTS, &model, &err)) {
        print_message("SKIPPED: %s: %s\n", err.where, err.message);
        skip();
    }
    json_t *golden_file = json_load_file(path, 0, &problem);
    const json_t *ids = json_object_get(json_object_get(golden_file, "greedy"), "ids");
    assert_int_equal(json_array_size(ids), 201);
    engine_choice choice = choose(LZT_DTYPE_F32, 1, 1, false);
    choice.cache.length = 201;
    lzt_engine *engine = engine_for(model, &choice);
    int32_t prompt = (int32_t)json_integer_value(json_array_get(ids, 0)), out[200];
    lzt_sequence sequence = {.prompt = &prompt, .prompt_count = 1, .max_new = 200, .out = out};
    assert_int_equal(lzt_generate(engine, &sequence, 1, NULL, NULL, &err), LZT_OK);
    assert_int_equal(sequence.made, 200);
    for (size_t i = 0; i < 200; i++) assert_int_equal(out[i], json_integer_value(json_array_get(ids, i + 1)));
    lzt_engine_destroy(engine);
    lzt_model_close(model);
    json_decref(golden_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_the_whole_text), cmocka_unit_test(neighbours_and_placement_do_not_show),
        cmocka_unit_test(generation_between_steps),    cmocka_unit_test(cache_fits_the_cap),
        cmocka_unit_test(golden_ids_of_stories),       cmocka_unit_test(what_does_not_fit_the_cache_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
