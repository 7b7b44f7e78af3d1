/* profile.json: whatever the text, parse ends with a profile or an error, and a profile's print parses to itself. */
#include "lazytrain/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt_profile profile, again;
    lzt_error err;
    char *text, *second;
    if (lzt_profile_parse((const char *)data, size, "fuzz", &profile, &err)) return 0;
    lzt_status status = lzt_profile_print(&profile, &text, &err);
    assert(!status);
    status = lzt_profile_parse(text, strlen(text), "again", &again, &err);
    assert(!status);
    status = lzt_profile_print(&again, &second, &err);
    assert(!status && !strcmp(text, second));
    free(text);
    free(second);
    lzt_profile_fini(&profile);
    lzt_profile_fini(&again);
    return 0;
}
