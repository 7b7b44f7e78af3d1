/* Fuzz target: config files. What loads must also print as a resolved config that loads again. */
#include "lazytrain/config.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt_config config, again;
    lzt_error err;
    char *text = NULL;
    size_t bytes = 0;
    if (lzt_config_load_text("fuzz.yaml", (const char *)data, size, NULL, 0, &config, &err)) {
        assert(err.message[0]);
        return 0;
    }
    FILE *out = open_memstream(&text, &bytes);
    if (out && !lzt_config_print_resolved(&config, out, &err) && !fclose(out)) {
        lzt_status status = lzt_config_load_text("resolved.yaml", text, bytes, NULL, 0, &again, &err);
        assert(!status);
        (void)status;
        lzt_config_fini(&again);
    }
    free(text);
    lzt_config_fini(&config);
    return 0;
}
