/* plan.json: whatever the text, parse ends with a plan or an error; a plan prints, and its print parses to the same
 * print. Checking, explaining and drawing it must not crash either. */
#include "lazytrain/plan_html.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lzt_plan plan, again;
    lzt_evaluation e;
    lzt_error err;
    char *text = NULL, *second = NULL, *explained = NULL, *page = NULL;
    if (lzt_plan_parse((const char *)data, size, "fuzz", &plan, &err)) return 0;
    if (!lzt_plan_check(&plan, NULL, NULL, &e, &err) && !lzt_plan_print(&plan, &text, &err)) {
        lzt_status status = lzt_plan_parse(text, strlen(text), "again", &again, &err);
        assert(!status);
        status = lzt_plan_print(&again, &second, &err);
        assert(!status && !strcmp(text, second));
        lzt_plan_fini(&again);
        if (plan.layer_count <= 1024) lzt_plan_explain(&plan, &explained, &err);
        if (plan.layer_count <= 256) lzt_plan_print_html(&plan, NULL, 0, &page, &err);
    }
    free(text);
    free(second);
    free(explained);
    free(page);
    lzt_plan_fini(&plan);
    return 0;
}
