/* Goal: nothing that a row says is left out without a word. Method: rows with one field too many, in another type, or
 * that the template has no place for; each with its text and what of it is trained, or with the error that names it. */
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static lzt_tokenizer *tokenizer;
static lzt_template *chatml, *parts;
static lzt_error err;
static char path[64];

static lzt_status open_row(lzt_template *chat, const char *row, lzt_dataset **d)
{
    lzt_dataset_options o = LZT_DATASET_OPTIONS_INIT;
    strcpy(path, "/tmp/lzt-row-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, row, strlen(row)), strlen(row));
    close(fd);
    o.path = path;
    o.tokenizer = tokenizer;
    o.chat = chat;
    err = (lzt_error){0};
    lzt_status s = lzt_dataset_open(&o, d, &err);
    unlink(path);
    return s;
}

static void refuse(lzt_template *chat, const char *row, const char *says)
{
    lzt_dataset *d;
    assert_int_equal(open_row(chat, row, &d), LZT_ERR_DATA);
    if (!strstr(err.message, says)) fail_msg("%s: %s", row, err.message);
    assert_non_null(strstr(err.where, ":1"));
}

/* The row's text, and the text of its trained tokens. */
static void row_is(lzt_template *chat, const char *row, const char *want, const char *want_trained)
{
    lzt_dataset *d;
    static int32_t ids[4096], labels[4096], kept[4096];
    uint32_t n, kept_count = 0;
    char *text, *trained;
    if (open_row(chat, row, &d)) fail_msg("%s: %s", row, err.message);
    assert_int_equal(lzt_dataset_measure(d, 0, &n, NULL, &err), 0);
    assert_int_equal(lzt_dataset_read(d, 0, ids, labels, NULL, &err), 0);
    for (uint32_t i = 0; i < n; i++)
        if (labels[i] != -100) kept[kept_count++] = ids[i];
    assert_int_equal(lzt_tokenizer_decode(tokenizer, ids, n, false, &text, NULL, &err), 0);
    assert_int_equal(lzt_tokenizer_decode(tokenizer, kept, kept_count, false, &trained, NULL, &err), 0);
    assert_string_equal(text, want);
    assert_string_equal(trained, want_trained);
    free(text);
    free(trained);
    lzt_dataset_close(d);
}

#define SAID(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"

static void fields_of_another_type(void **state)
{
    (void)state;
    refuse(chatml, "{\"instruction\":\"double\",\"input\":5,\"output\":\"10\"}",
           "\"input\" is a number, 5, not a text");
    refuse(chatml, "{\"instruction\":\"double\",\"input\":[\"a\"],\"output\":\"10\"}", "\"input\" is a list");
    refuse(chatml, "{\"question\":\"q\",\"answer\":\"a\",\"system\":7}", "\"system\" is a number");
    refuse(chatml, "{\"system\":{},\"conversations\":[{\"from\":\"gpt\",\"value\":\"a\"}]}", "\"system\" is an object");
    refuse(chatml, "{\"question\":\"q\",\"answer\":\"a\",\"history\":\"[]\"}", "\"history\" is a text, not a list of");
    refuse(chatml, "{\"question\":\"q\",\"answer\":\"a\",\"history\":{\"q\":\"a\"}}", "\"history\" is an object");
    row_is(chatml,
           "{\"instruction\":\"q\",\"input\":null,\"output\":\"a\",\"system\":null,\"history\":[],\"tools\":\"\"}",
           SAID("user", "q") SAID("assistant", "a"), "a<|im_end|>");
}

/* Without a template there is no place for them. */
static void fields_without_a_template(void **state)
{
    (void)state;
    refuse(NULL, "{\"question\":\"q\",\"answer\":\"a\",\"system\":\"s\"}", "there is no chat template");
    refuse(NULL, "{\"question\":\"q\",\"answer\":\"a\",\"history\":[[\"a\",\"b\"]]}", "there is no chat template");
    refuse(NULL, "{\"question\":\"q\",\"answer\":\"a\",\"tools\":[{\"name\":\"f\"}]}", "there is no chat template");
    row_is(NULL, "{\"question\":\"q\",\"answer\":\"ab\",\"system\":\"\",\"history\":[]}", "qab", "ab");
}

static void parts_that_are_no_text(void **state)
{
    (void)state;
    refuse(chatml, "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"reasoning\",\"value\":\"x\"}]}]}",
           "of type reasoning, not a text");
    refuse(chatml, "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"image\",\"text\":\"x\"}]}]}",
           "of type image, not a text");
    refuse(chatml, "{\"messages\":[{\"role\":\"assistant\",\"content\":[\"x\"]}]}", "not a text");
}

/* A template that goes through parts gets parts, of whatever form the row is; one that knows texts alone gets one. */
static void parts_for_their_templates(void **state)
{
    (void)state;
    static const char list[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":"
        "\"b\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"value\":\"c\"}]}]}";
    row_is(chatml, list, SAID("user", "ab") SAID("assistant", "c"), "c<|im_end|>");
    row_is(parts, list, "user\n(a)(b)\nassistant\n(c)\n", "(c)");
    row_is(parts, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"c\"}]}",
           "user\n(a)\nassistant\n(c)\n", "(c)");
    row_is(parts, "{\"question\":\"a\",\"answer\":\"c\"}", "user\n(a)\nassistant\n(c)\n", "(c)");
}

#define TOOL "[{\"type\":\"function\",\"function\":{\"name\":\"get_w\",\"parameters\":{}}}]"

/* chatml knows no tools: a call would be an empty turn that is trained. */
static void tools_that_are_not_written(void **state)
{
    (void)state;
    refuse(chatml,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"get_w\"},{\"role\":\"assistant\",\"content\":\"\","
           "\"tool_calls\":" TOOL "}]}",
           "does not write the tool call \"get_w\"");
    refuse(chatml,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}],"
           "\"tools\":" TOOL "}",
           "does not write the tool \"get_w\"");
    refuse(chatml,
           "{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"function_call\",\"value\":"
           "\"{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{}}\"}]}",
           "does not write the tool call \"f\"");
}

/* The assistant's turns in a prompt are context, unless they say otherwise. */
static void prompts_of_turns(void **state)
{
    (void)state;
    row_is(chatml,
           "{\"prompt\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"mid\"},"
           "{\"role\":\"user\",\"content\":\"r\"}],\"completion\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
           SAID("user", "q") SAID("assistant", "mid") SAID("user", "r") SAID("assistant", "a"), "a<|im_end|>");
    row_is(chatml,
           "{\"prompt\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"mid\","
           "\"weight\":1}],\"completion\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
           SAID("user", "q") SAID("assistant", "mid") SAID("assistant", "a"), "mid<|im_end|>a<|im_end|>");
}

static void two_systems(void **state)
{
    (void)state;
    refuse(chatml,
           "{\"system\":\"s\",\"conversations\":[{\"from\":\"system\",\"value\":\"t\"},{\"from\":\"gpt\","
           "\"value\":\"a\"}]}",
           "a system text of its own and another one");
    row_is(chatml,
           "{\"system\":\"s\",\"conversations\":[{\"from\":\"system\",\"value\":\"s\"},{\"from\":\"gpt\","
           "\"value\":\"a\"}]}",
           SAID("system", "s") SAID("assistant", "a"), "a<|im_end|>");
}

/* A template in a file of its own that knows contents as lists alone. */
static int open_parts(void)
{
    static const char source[] =
        "{% for m in messages %}{{ m.role + '\\n' }}{% for p in m.content %}{% if p.type == 'text' %}"
        "{% if m.role == 'assistant' %}{% generation %}{{ '(' + p.text + ')' }}{% endgeneration %}"
        "{% else %}{{ '(' + p.text + ')' }}{% endif %}{% endif %}{% endfor %}{{ '\\n' }}{% endfor %}";
    char file[] = "/tmp/lzt-parts-XXXXXX";
    int fd = mkstemp(file);
    bool ok = fd >= 0 && write(fd, source, sizeof source - 1) == (ssize_t)(sizeof source - 1);
    close(fd);
    ok = ok && !lzt_template_open(file, NULL, &parts, &err);
    unlink(file);
    return ok ? 0 : 1;
}

int main(void)
{
    char file[4096];
    const char *root = getenv("LZT_DATA") ? getenv("LZT_DATA") : "../shared/data";
    snprintf(file, sizeof file, "%s/tokenizers/tiny-bpe/tiny_bpe_tokenizer.json", root);
    if (access(file, R_OK)) {
        fprintf(stderr, "skipped: %s is not there (set LZT_DATA)\n", file);
        return 77;
    }
    if (lzt_tokenizer_open(file, NULL, &tokenizer, &err) || lzt_template_open("chatml", NULL, &chatml, &err) ||
        open_parts())
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_another_type),
        cmocka_unit_test(fields_without_a_template),
        cmocka_unit_test(parts_that_are_no_text),
        cmocka_unit_test(parts_for_their_templates),
        cmocka_unit_test(tools_that_are_not_written),
        cmocka_unit_test(prompts_of_turns),
        cmocka_unit_test(two_systems),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lzt_template_close(parts);
    lzt_template_close(chatml);
    lzt_tokenizer_close(tokenizer);
    return failed;
}
