/* Rows of a data set: whatever the file, opening ends with rows or an error naming a place; the counts add up, rows
 * read back as they measure, and every batch fits the capacity. The first byte chooses the file's kind and the
 * policies. */
#include "lazytrain/data.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(lzt_dataset *d)
{
    lzt_error err;
    lzt_dataset_report r;
    lzt_dataset_get_report(d, &r);
    int32_t *ids = malloc((r.longest + 1) * sizeof *ids), *labels = malloc((r.longest + 1) * sizeof *labels);
    float *weights = malloc((r.longest + 1) * sizeof *weights);
    for (uint64_t i = 0; i < lzt_dataset_rows(d) && i < 64; i++) {
        uint32_t tokens;
        if (lzt_dataset_measure(d, i, &tokens, NULL, &err) || tokens > r.longest) continue;
        lzt_status s = lzt_dataset_read(d, i, ids, labels, weights, &err);
        assert(!s && (!tokens || labels[0] == LZT_LABEL_NONE));
        for (uint32_t t = 0; t < tokens; t++)
            assert(labels[t] == LZT_LABEL_NONE ? weights[t] == 0 : weights[t] >= 1e-10f && weights[t] <= 1e10f);
    }
    free(ids);
    free(labels);
    free(weights);
}

static void batch_all(lzt_dataset *d, bool packing, uint64_t longest)
{
    lzt_batcher_options o = LZT_BATCHER_OPTIONS_INIT;
    lzt_batcher *b;
    lzt_error err;
    o.micro_batch_rows = 3;
    o.packing = packing;
    o.pack_tokens = longest ? longest : 1;
    if (lzt_batcher_create(d, &o, &b, &err)) return;
    uint64_t n = lzt_batcher_capacity(b);
    lzt_micro_batch m = lzt_micro_batch_over(malloc(lzt_micro_batch_bytes(n)), n);
    for (uint64_t step = 0; step < lzt_batcher_steps(b) && step < 32; step++) {
        lzt_status s = lzt_batcher_fill(b, step, 0, &m, &err);
        assert(!s && m.token_count <= n && (m.loss_weight > 0) == (m.loss_count > 0));
    }
    free(m.ids);
    lzt_batcher_destroy(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    char path[64];
    snprintf(path, sizeof path, "/tmp/lzt-fuzz-%d%s", (int)getpid(), data[0] & 1 ? ".csv" : ".jsonl");
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(data + 1, 1, size - 1, f);
    fclose(f);
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    o.path = path;
    o.vocabulary = data[0] & 2 ? 1000 : 0;
    o.on_bad_row = data[0] & 4 ? LZT_BAD_ROW_SKIP : LZT_BAD_ROW_ERROR;
    o.max_seq_length = data[0] & 8 ? 5 : 0;
    o.truncation = (lzt_truncation)(data[0] >> 4 & 3);
    lzt_dataset *d;
    lzt_error err = {0};
    if (lzt_dataset_open(&o, &d, &err)) {
        assert(err.message[0]);
    } else {
        lzt_dataset_report r;
        lzt_dataset_get_report(d, &r);
        assert(r.rows_in == r.rows_out + r.dropped_bad + r.dropped_cut + r.dropped_too_long + r.dropped_untrained);
        read_all(d);
        batch_all(d, data[0] & 64, r.longest);
        lzt_dataset_close(d);
    }
    unlink(path);
    return 0;
}
