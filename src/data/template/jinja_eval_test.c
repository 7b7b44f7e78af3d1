/* Goal: what the template language must refuse or bound it refuses by name: undefined values reached through every
 * operation, values that nest without end, work that grows without end; and integers come out as Python's at the edges.
 * Method: templates written here, rendered over one small conversation; expected texts are jinja2's. */
#include "lazytrain/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct outcome {
    lzt_status status;
    char text[4096], message[1024];
} outcome;

static outcome render(const char *source)
{
    static const char chat[] = "[{\"role\":\"user\",\"content\":\"x\"}]";
    char path[128];
    outcome o = {0};
    lzt_error err = {0};
    lzt_template *t;
    lzt_rendered r;
    snprintf(path, sizeof path, "/tmp/lzt-jinja-test-%d.jinja", (int)getpid());
    FILE *f = fopen(path, "wb");
    fwrite(source, 1, strlen(source), f);
    fclose(f);
    o.status = lzt_template_open(path, NULL, &t, &err);
    unlink(path);
    if (!o.status) {
        o.status = lzt_template_render(t, chat, sizeof chat - 1, 0, &r, &err);
        if (!o.status) {
            assert_true(r.size < sizeof o.text);
            memcpy(o.text, r.text, r.size);
        }
        lzt_template_close(t);
    }
    if (o.status) snprintf(o.message, sizeof o.message, "%s", err.message);
    return o;
}

static void renders(const char *source, const char *expected)
{
    outcome o = render(source);
    if (o.status) fail_msg("%s: %s", source, o.message);
    assert_string_equal(o.text, expected);
}

static void refuses(const char *source, const char *message)
{
    outcome o = render(source);
    assert_int_equal(o.status, LZT_ERR_DATA);
    assert_non_null(strstr(o.message, message));
}

/* Every way to an undefined value that has no name: its use is refused, and the message holds no stray pointer. */
static void nameless(void **state)
{
    (void)state;
    static const char *const ways[] = {"4[1:-1]",
                                       "[1][5]",
                                       "'abc'[9]",
                                       "{'a': 1}['b']",
                                       "([] | first)",
                                       "('' | last)",
                                       "(1 if false)",
                                       "{'a': 4[1:-1]}.a",
                                       "[(1 if false), 2][0]",
                                       "dict(a=[][0]).a",
                                       "([{'a': 1}] | map(attribute='b') | first)"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char source[256];
        snprintf(source, sizeof source, "{{ messages | tojson | length }}{{ %s.split('\"')[0] }}", ways[i]);
        refuses(source, "'value' is undefined");
        snprintf(source, sizeof source, "{{ %s is defined }}", ways[i]);
        renders(source, "False");
    }
    refuses("{% for m in messages %}{{ loop.previtem.x }}{% endfor %}", "'value' is undefined");
    refuses("{% for m in messages %}{{ loop.nextitem.x }}{% endfor %}", "'value' is undefined");
    refuses("{{ missing.x }}", "'missing' is undefined");
    renders("{{ 'abc' | int }} {{ 'abc' | float }} {{ none | int }} {{ messages | float }}", "0 0.0 0 0.0");
}

static void edges(void **state)
{
    (void)state;
    renders("{{ (-9223372036854775807 - 1) % 3 }} {{ (-9223372036854775807 - 1) // 3 }} {{ -7 % 3 }} {{ 7 % -3 }}",
            "1 -3074457345618258603 2 -2");
    renders("{{ range(-9000000000000000000, 9000000000000000000, 6000000000000000000) | list }}",
            "[-9000000000000000000, -3000000000000000000, 3000000000000000000]");
    refuses("{{ (-9223372036854775807 - 1) // -1 }}", "beyond 64 bits");
    renders("{{ (-1) ** 101 }} {{ 0 ** 99 }} {{ 2 ** 62 }} {{ (-2) ** 63 }}",
            "-1 0 4611686018427387904 -9223372036854775808");
    refuses("{{ 2 ** 63 }}", "beyond 64 bits");
    refuses("{% set x.0 = 1 %}", "a name was expected behind the dot");
    renders("{{ ['b', 'B', 'a', 'A'] | sort | join }} {{ [3, 1, 2, 1] | sort(reverse=true) }}", "aAbB [3, 2, 1, 1]");
}

/* Values that hold themselves many times over, or very deeply, and loops over loops, end with an error. */
static void bounded(void **state)
{
    (void)state;
#define DEEP(item, times)                                                                                              \
    "{% set ns = namespace(a=1, b=1) %}{% for i in range(" times                                                       \
    ") %}{% set ns.a = " item("ns.a") " %}{% set ns.b = " item("ns.b") " %}{% endfor %}"
#define ONE(x) "[" x "]"
#define TWO(x) "[" x ", " x "]"
    refuses(DEEP(ONE, "100000") "{{ ns.a == ns.b }}", "to be compared");
    refuses(DEEP(TWO, "100") "{{ ns.a == ns.b }}", "to be compared");
    refuses(DEEP(TWO, "100") "{{ ns.a in [ns.b] }}", "to be compared");
    refuses(DEEP(ONE, "100000") "{{ [ns.a, ns.b] | sort }}", "cannot be ordered");
    refuses("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "too many steps");
    refuses("{{ range(99999) | list | unique | list | length }}", "too many steps");
    renders("{{ range(99999) | sort(reverse=true) | first }}", "99998");
    assert_int_not_equal(render(DEEP(TWO, "100") "{{ ns.a }}").status, 0);
    assert_int_not_equal(render(DEEP(TWO, "100") "{{ ns.a | tojson }}").status, 0);
    char *chain = calloc(1, 200000);
    strcpy(chain, "{% filter upper");
    for (int i = 0; i < 20000; i++) strcpy(chain + 15 + 6 * i, "|upper");
    strcat(chain, " %}x{% endfilter %}");
    refuses(chain, "nests too deeply");
    free(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nameless), cmocka_unit_test(edges), cmocka_unit_test(bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
