/* tokenizer.json: whatever the text, opening ends with a tokenizer or an error; a tokenizer encodes any text, its
 * begins do not fall, and its ids decode. */
#include "lazytrain/tokenizer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "Hello  world\n\n'S 123 \xc3\xa9\xcc\x81 \xe4\xb8\xad\xe6\x96\x87 <s>a</s>\t\xf0\x9f\x98\x80 don't";
    char path[64];
    snprintf(path, sizeof path, "/tmp/lzt-fuzz-%d.json", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(data, 1, size, f);
    fclose(f);
    lzt_tokenizer *t;
    lzt_encoder *e;
    lzt_error err = {0};
    if (lzt_tokenizer_open(path, NULL, &t, &err)) {
        assert(err.message[0]);
        unlink(path);
        return 0;
    }
    lzt_status s = lzt_encoder_create(t, &e, &err);
    assert(!s);
    lzt_encoding x;
    for (uint32_t flags = 0; flags < 4; flags++) {
        if (lzt_encoder_encode(e, text, sizeof text - 1, NULL, flags, &x, &err)) continue;
        for (uint64_t i = 1; i < x.count; i++) assert(x.begin[i] >= x.begin[i - 1]);
        char *back;
        s = lzt_tokenizer_decode(t, x.ids, x.count, flags & 1, &back, NULL, &err);
        assert(!s);
        free(back);
    }
    lzt_encoder_destroy(e);
    lzt_tokenizer_close(t);
    unlink(path);
    return 0;
}
