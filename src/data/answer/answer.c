/* Answers: the pattern and the comparison. See answer.h; what a number is stands in answer_number.c. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/answer/answer.h"

#include "data/answer/answer_number.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* A pattern that backtracks without end gives up after so many steps of a match. */
enum { MATCH_LIMIT = 10000000 };

struct lzt__answer_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    bool has_group;
};

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, "answer_pattern", "no memory for the pattern");
}

lzt_status lzt__answer_pattern_open(const char *text, lzt__answer_pattern **out, lzt_error *err)
{
    int code;
    PCRE2_SIZE at;
    uint32_t groups = 0;
    *out = NULL;
    lzt__answer_pattern *p = calloc(1, sizeof *p);
    if (!p) return no_memory(err);
    if (!text) text = LZT__ANSWER_PATTERN;
    p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL);
    if (!p->code) {
        PCRE2_UCHAR why[160] = "";
        pcre2_get_error_message(code, why, sizeof why);
        free(p);
        lzt_fail(err, LZT_ERR_USAGE, "answer_pattern", "%s, at byte %llu of \"%s\"", (const char *)why,
                 (unsigned long long)at, text);
        return lzt_hint(err, "the syntax is Perl's; unset, it is %s", LZT__ANSWER_PATTERN);
    }
    p->data = pcre2_match_data_create_from_pattern(p->code, NULL);
    p->context = pcre2_match_context_create(NULL);
    if (!p->data || !p->context) {
        lzt__answer_pattern_close(p);
        return no_memory(err);
    }
    pcre2_set_match_limit(p->context, MATCH_LIMIT);
    pcre2_pattern_info(p->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    p->has_group = groups > 0;
    *out = p;
    return LZT_OK;
}

void lzt__answer_pattern_close(lzt__answer_pattern *p)
{
    if (!p) return;
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->data);
    pcre2_code_free(p->code);
    free(p);
}

/* Where the search goes on behind a match: at least one character on. */
static uint64_t behind(const char *text, uint64_t size, uint64_t begin, uint64_t end)
{
    if (end > begin) return end;
    do end++;
    while (end < size && ((unsigned char)text[end] & 0xc0) == 0x80);
    return end;
}

bool lzt__answer_find(const lzt__answer_pattern *p, const char *text, uint64_t size, lzt__answer *answer)
{
    *answer = (lzt__answer){text, 0};
    for (uint64_t at = 0; at <= size;) {
        int found = pcre2_match(p->code, (PCRE2_SPTR)text, size, at, 0, p->data, p->context);
        if (found < 0) break;
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(p->data);
        uint64_t begin = place[0], end = place[1];
        at = behind(text, size, begin, end);
        if (p->has_group) { /* a group that took no part is an empty answer */
            begin = found > 1 && place[2] != PCRE2_UNSET ? place[2] : 0;
            end = found > 1 && place[2] != PCRE2_UNSET ? place[3] : 0;
        }
        *answer = lzt__answer_trim(text + begin, end > begin ? end - begin : 0);
    }
    return answer->size > 0;
}

static bool is_space(const char *text, uint64_t size)
{
    return size && (*text == ' ' || (*text >= '\t' && *text <= '\r'));
}

lzt__answer lzt__answer_trim(const char *text, uint64_t size)
{
    while (is_space(text, size)) text++, size--;
    while (size && is_space(text + size - 1, 1)) size--;
    if (size > 1 && text[size - 1] == '.' && text[size - 2] != '.') size--;
    while (size && is_space(text + size - 1, 1)) size--;
    return (lzt__answer){text, size};
}

bool lzt__answer_equal(const lzt__answer *a, const lzt__answer *b)
{
    lzt__rational x, y;
    if (lzt__rational_parse(a->text, a->size, &x) && lzt__rational_parse(b->text, b->size, &y))
        return lzt__rational_equal(&x, &y);
    return a->size == b->size && !memcmp(a->text, b->text, a->size);
}
