/* config.json: whatever the text, parse ends with checked numbers or an error that has a text; what it accepts makes
 * tables whose units add up, finite rotary frequencies, and a config.json whose dtype can be set and which parses
 * again.
 */
#include "model/model_config.h"
#include "model/model_config_dtype.h"
#include "model/model_tables.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tables(const lzt__model_config *c)
{
    lzt__model_tables t;
    lzt_error err;
    lzt__model_spelling spelling = lzt__model_spelling_default(c);
    if (c->layer_count * (c->expert_count + 1) > 4096) return; /* legal, but slow */
    if (lzt__model_tables_build(c, &spelling, "fuzz", &t, &err)) {
        assert(err.message[0]);
        return;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t.tensor_count; i++) {
        const lzt_unit *unit = &t.unit[t.tensor[i].unit];
        assert(t.tensor[i].unit_offset + t.tensor[i].element_count <= unit->element_count);
        sum += t.tensor[i].element_count;
    }
    assert(sum == t.parameters && t.parameters_active <= t.parameters);
    lzt__model_tables_fini(&t);
}

static void check_rope(const lzt__model_config *c)
{
    double factor;
    float *frequencies = malloc(c->rotary_dim / 2 * sizeof *frequencies);
    assert(frequencies && c->rotary_dim % 2 == 0 && c->rotary_dim > 0);
    lzt__model_inv_freq(&c->rope, c->rotary_dim, frequencies, &factor);
    for (uint64_t i = 0; i < c->rotary_dim / 2; i++) assert(isfinite(frequencies[i]));
    assert(isfinite(factor));
    free(frequencies);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt__model_config c, again;
    lzt_error err = {0};
    lzt_status status = lzt__model_config_parse((const char *)data, size, "fuzz", &c, &err);
    if (status) {
        assert(status == LZT_ERR_MODEL && err.message[0]);
        return 0;
    }
    check_tables(&c);
    check_rope(&c);
    if (memchr(data, '\\', size)) goto out; /* an escaped key is not recognised as dtype */
    lzt__text text = {0};
    lzt__model_config_set_dtype((const char *)data, size, LZT_DTYPE_BF16, &text);
    status = lzt__model_config_parse(text.at, text.bytes, "again", &again, &err);
    assert(!status && again.dtype == LZT_DTYPE_BF16);
    lzt__model_config_fini(&again);
    lzt__text_free(&text);
out:
    lzt__model_config_fini(&c);
    return 0;
}
