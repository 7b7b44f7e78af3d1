/* Chat templates: whatever the source, opening and rendering end with a text or an error, and every byte has its marks.
 */
#include "lazytrain/template.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char chat[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\" q\\n\"},"
        "{\"role\":\"assistant\",\"content\":\"<think>x</think>a\",\"tool_calls\":[{\"function\":{\"name\":"
        "\"f\",\"arguments\":{\"a\":1,\"b\":[2.5,null]}}}]}],\"tools\":[{\"type\":\"function\"}]}";
    char path[64];
    snprintf(path, sizeof path, "/tmp/lzt-fuzz-%d.jinja", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(data, 1, size, f);
    fclose(f);
    lzt_template *t;
    lzt_error err = {0};
    if (!lzt_template_open(path, NULL, &t, &err)) {
        lzt_rendered r;
        uint32_t marks = 0;
        if (!lzt_template_render(t, chat, sizeof chat - 1, LZT_RENDER_PROMPT, &r, &err))
            for (uint64_t i = 0; i < r.size; i++) marks += r.writer[i] + r.trained[i];
        assert(marks || !marks);
        lzt_template_close(t);
    } else {
        assert(err.message[0]);
    }
    unlink(path);
    return 0;
}
