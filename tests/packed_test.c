/* Goal: packed = unpacked (gate 3 of the data). Two documents that share a row give the loss and the gradients that
 * they give alone, at every split of the row.
 *
 * Method: the small families of tests/golden through the real engine in F32. A row of 40 tokens is cut into two
 * documents at each place 1..39. Packed, both are one micro-batch; unpacked, each is a micro-batch of its own, and the
 * engine adds their gradients. What differs is the order of F32 sums, so each tensor must agree to EACH of its L2 norm,
 * the loss to LOSS of itself. A tensor whose true gradient is zero (a k bias: softmax does not see it) is all rounding;
 * it is held against the whole gradient's norm instead. The same row through the batcher, packed and not, gives these
 * very arrays.
 */
#include "golden_run.h"

#include <unistd.h>

#define EACH 1e-6
#define LOSS 1e-6

enum { TOKENS = 40 };

static void batch_make(lzt_micro_batch *b)
{
    *b = (lzt_micro_batch){.capacity = TOKENS,
                           .ids = calloc(TOKENS, 4),
                           .position = calloc(TOKENS, 4),
                           .target = calloc(TOKENS, 4),
                           .weight = calloc(TOKENS, 4),
                           .document_begin = calloc(TOKENS + 1, 4)};
}

/* Appends ids[begin..end-1] as a document that predicts all its tokens but the first. */
static void append(lzt_micro_batch *b, const int32_t *ids, int begin, int end)
{
    for (int t = begin; t < end; t++) {
        uint64_t at = b->token_count++;
        b->ids[at] = ids[t];
        b->position[at] = t - begin;
        b->target[at] = t + 1 < end ? ids[t + 1] : -1;
        b->weight[at] = t + 1 < end ? 1 : 0;
        b->loss_count += t + 1 < end;
    }
    b->document_begin[++b->document_count] = (int32_t)b->token_count;
}

static void clear(lzt_micro_batch *b)
{
    b->token_count = b->document_count = b->loss_count = 0;
    b->document_begin[0] = 0;
}

static double run(lzt_engine *engine, lzt_variant variant, const lzt_micro_batch *batch, uint64_t loss_count)
{
    lzt_error err = {0};
    lzt_run_result result;
    lzt_engine_set_batch(engine, batch, 1.0f / (float)loss_count);
    if (lzt_engine_run(engine, variant, &result, &err)) fail_msg("%s: %s", err.where, err.message);
    return result.loss_sum;
}

static float **read_gradients(const lzt_engine *engine, const lzt_model_info *m)
{
    lzt_error err = {0};
    float **g = calloc(m->tensor_count, sizeof *g);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        g[i] = malloc(m->tensor[i].element_count * 4);
        assert_int_equal(lzt_engine_read(engine, LZT_STATE_PART_GRADIENT, i, g[i], &err), LZT_OK);
    }
    return g;
}

static void free_gradients(float **g, const lzt_model_info *m)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) free(g[i]);
    free(g);
}

static double norm(const float *a, const float *b, uint64_t n)
{
    double s = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0.0);
        s += d * d;
    }
    return sqrt(s);
}

typedef struct worst {
    double tensor, loss;
} worst;

/* The two gradients, tensor by tensor. */
static void compare(const lzt_model_info *m, float *const *packed, float *const *alone, int split, worst *w)
{
    double square = 0;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        double n = norm(alone[i], NULL, m->tensor[i].element_count);
        square += n * n;
    }
    double floor_norm = 1e-5 * sqrt(square); /* below it a tensor is rounding alone */
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        uint64_t count = m->tensor[i].element_count;
        double n = norm(alone[i], NULL, count), off = norm(packed[i], alone[i], count) / fmax(n, floor_norm);
        if (off > w->tensor) w->tensor = off;
        if (!(off <= EACH)) fail_msg("split %d: %s is off by %g of its norm %g", split, m->tensor[i].name, off, n);
    }
}

/* Runs both; returns the relative difference of the losses. drop_isolation: a packed batch whose second document sees
 * the first, to show that the comparison can fail. */
static double at_split(lzt_engine *engine, const golden *g, const int32_t *ids, int split, bool drop_isolation,
                       worst *w)
{
    lzt_micro_batch b;
    lzt_step_scalars scalars = golden_scalars(1);
    uint64_t loss_count = TOKENS - 2;
    batch_make(&b);
    clear(&b);
    lzt_engine_set_scalars(engine, &scalars);
    append(&b, ids, 0, split);
    double alone_loss = run(engine, LZT_VARIANT_FIRST, &b, loss_count);
    clear(&b);
    append(&b, ids, split, TOKENS);
    alone_loss += run(engine, LZT_VARIANT_LAST, &b, loss_count);
    float **alone = read_gradients(engine, g->info);
    lzt_engine_abandon(engine); /* the weights stay as they are */
    clear(&b);
    append(&b, ids, 0, split);
    append(&b, ids, split, TOKENS);
    if (drop_isolation) {
        b.document_count = 1;
        b.document_begin[1] = TOKENS;
    }
    lzt_engine_set_scalars(engine, &scalars);
    double packed_loss = run(engine, LZT_VARIANT_SINGLE, &b, loss_count), off;
    float **packed = read_gradients(engine, g->info);
    lzt_engine_abandon(engine);
    off = fabs(packed_loss - alone_loss) / alone_loss;
    if (!drop_isolation) {
        if (off > w->loss) w->loss = off;
        if (!(off <= LOSS)) fail_msg("split %d: loss %.9g packed, %.9g alone", split, packed_loss, alone_loss);
        compare(g->info, packed, alone, split, w);
    }
    free_gradients(packed, g->info);
    free_gradients(alone, g->info);
    batch_free(&b);
    return off;
}

static void packed_is_unpacked(void **state)
{
    (void)state;
    static const char *const families[] = {"qwen3", "qwen2.5", "llama3", "mistral"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        golden g;
        char directory[64];
        worst w = {0, 0};
        snprintf(directory, sizeof directory, "tests/golden/%s", families[f]);
        golden_open(&g, directory);
        assert_true(g.batch.document_begin[1] >= TOKENS);
        engine_choice choice = {
            .dtype = LZT_DTYPE_F32, .capacity = TOKENS, .micro_batches = 2, .threads = 1, .drop_dependency = -1};
        lzt_engine *engine = engine_for(g.model, &choice);
        for (int split = 1; split < TOKENS; split++) at_split(engine, &g, g.batch.ids, split, false, &w);
        assert_true(at_split(engine, &g, g.batch.ids, TOKENS / 2, true, &w) > 100 * LOSS);
        print_message("%s: %d splits, worst loss %.2e, worst tensor %.2e\n", families[f], TOKENS - 1, w.loss, w.tensor);
        lzt_engine_destroy(engine);
        golden_close(&g);
    }
}

/* ---- the batcher makes these very micro-batches ---- */

static void write_rows(const char *path, const int32_t *ids, int split)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int part = 0; part < 2; part++) {
        int begin = part ? split : 0, end = part ? TOKENS : split;
        fprintf(f, "{\"input_ids\":[");
        for (int t = begin; t < end; t++) fprintf(f, "%s%d", t > begin ? "," : "", ids[t]);
        fprintf(f, "]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static lzt_batcher *batcher_over(lzt_dataset *rows, bool packing)
{
    lzt_error err = {0};
    lzt_batcher *b;
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    o.disable_shuffling = true;
    o.micro_batch_rows = 1;
    o.accumulation = packing ? 1 : 2;
    o.packing = packing;
    o.pack_tokens = TOKENS;
    if (lzt_batcher_create(rows, &o, &b, &err)) fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(lzt_batcher_steps(b), 1);
    return b;
}

static void assert_same_batch(const lzt_micro_batch *a, const lzt_micro_batch *b)
{
    assert_int_equal(a->token_count, b->token_count);
    assert_int_equal(a->document_count, b->document_count);
    assert_int_equal(a->loss_count, b->loss_count);
    assert_memory_equal(a->ids, b->ids, a->token_count * 4);
    assert_memory_equal(a->position, b->position, a->token_count * 4);
    assert_memory_equal(a->target, b->target, a->token_count * 4);
    assert_memory_equal(a->document_begin, b->document_begin, (a->document_count + 1) * 4);
}

static void the_batcher_packs_like_that(void **state)
{
    (void)state;
    golden g;
    lzt_micro_batch made, ours;
    lzt_error err = {0};
    char path[] = "/tmp/lzt-packed-XXXXXX";
    int fd = mkstemp(path);
    golden_open(&g, "tests/golden/qwen3");
    batch_make(&made);
    batch_make(&ours);
    for (int split = 2; split <= TOKENS - 2; split++) { /* a row of one token has no loss and is dropped */
        lzt_dataset *rows;
        lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
        write_rows(path, g.batch.ids, split);
        o.path = path;
        if (lzt_dataset_open(&o, &rows, &err)) fail_msg("%s: %s", err.where, err.message);
        lzt_batcher *packed = batcher_over(rows, true), *alone = batcher_over(rows, false);
        for (int part = 0; part < 2; part++) {
            clear(&ours);
            append(&ours, g.batch.ids, part ? split : 0, part ? TOKENS : split);
            assert_int_equal(lzt_batcher_fill(alone, 0, (uint64_t)part, &made, &err), LZT_OK);
            assert_same_batch(&made, &ours);
        }
        bool first_longer = split >= TOKENS - split; /* the packer takes the longest first */
        clear(&ours);
        append(&ours, g.batch.ids, first_longer ? 0 : split, first_longer ? split : TOKENS);
        append(&ours, g.batch.ids, first_longer ? split : 0, first_longer ? TOKENS : split);
        assert_int_equal(lzt_batcher_micro_batches(packed, 0), 1);
        assert_int_equal(lzt_batcher_fill(packed, 0, 0, &made, &err), LZT_OK);
        assert_same_batch(&made, &ours);
        lzt_batcher_destroy(packed);
        lzt_batcher_destroy(alone);
        lzt_dataset_close(rows);
    }
    batch_free(&made);
    batch_free(&ours);
    golden_close(&g);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_unpacked),
        cmocka_unit_test(the_batcher_packs_like_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
