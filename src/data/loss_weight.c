/* Weights as rows write them: see loss_weight.h. */
#include "data/loss_weight.h"

#include "base/real_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lzt__weight_fields[] = {"train", "weight", "loss_weight", NULL};

lzt_status lzt__weight_refuse(const char *where, const char *what, const char *found, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_DATA, where, "%s is %s, not a weight", what, found);
    return lzt_hint(err,
                    "a weight is 0 (no loss) or a number from 1e-9 to 1e9; correct it, or leave such rows out with "
                    "on_bad_row: skip");
}

static bool is_weight(double value, float *weight)
{
    *weight = value == 0 ? 0 : (float)value; /* -0 is 0 */
    return value == 0 || (*weight >= (float)LZT__WEIGHT_LEAST && value <= LZT__WEIGHT_MOST);
}

/* A number that is written as not 0 and reads as 0, as 1e-400 does. */
static bool vanishes(const lzt__json *node, double value)
{
    if (value != 0) return false;
    for (uint32_t i = 0; i < node->size && node->text[i] != 'e' && node->text[i] != 'E'; i++)
        if (node->text[i] >= '1' && node->text[i] <= '9') return true;
    return false;
}

bool lzt__weight_read(const lzt__json *node, float *weight, char found[48])
{
    bool number = node->type == LZT__JSON_NUMBER, truth = node->type == LZT__JSON_TRUE;
    if (truth || node->type == LZT__JSON_FALSE) *weight = truth ? 1 : 0;
    if (truth || node->type == LZT__JSON_FALSE || (node->type == LZT__JSON_NULL && !node->size)) return true;
    double value = number ? strtod(node->text, NULL) : 0;
    if (number && isfinite(value) && !vanishes(node, value) && is_weight(value, weight)) return true;
    if (number && isfinite(value))
        snprintf(found, 48, "%.*s", (int)(node->size > 40 ? 40 : node->size), node->text);
    else
        snprintf(found, 48, "%s", number || node->type == LZT__JSON_NULL ? "not finite" : "not a number");
    return false;
}

lzt_status lzt__weight_of_message(const lzt__json *message, uint32_t number, const char *where, float *weight,
                                  lzt_error *err)
{
    char found[48], what[64];
    for (const char *const *name = lzt__weight_fields; *name; name++) {
        const lzt__json *node = lzt__json_get(message, *name);
        if (!node || lzt__weight_read(node, weight, found)) continue;
        snprintf(what, sizeof what, "the `%s` of message %u", *name, number);
        return lzt__weight_refuse(where, what, found, err);
    }
    return LZT_OK;
}

/* The JSON value that a text spells; found says so where it spells none. */
static bool read_text(const lzt__json *text, lzt__json_doc *doc, float *weight, char found[48])
{
    bool blank = true;
    for (uint32_t i = 0; blank && i < text->size; i++) blank = text->text[i] == ' ' || text->text[i] == '\t';
    if (blank) return true;
    doc->not_finite = true;
    lzt_status s = lzt__json_parse(doc, text->text, text->size, "", NULL);
    doc->not_finite = false;
    if (!s) return lzt__weight_read(doc->node, weight, found);
    snprintf(found, 48, "%.*s", (int)(text->size > 40 ? 40 : text->size), text->text);
    return false;
}

lzt_status lzt__weight_of_row(const lzt__json *row, const char *field, lzt__json_doc *texts, const char *where,
                              float *weight, lzt_error *err)
{
    const char *const own[] = {field, NULL};
    char found[48], what[96];
    for (const char *const *name = field ? own : lzt__weight_fields; *name; name++) {
        const lzt__json *node = lzt__json_get(row, *name);
        if (!node) continue;
        bool text = texts && node->type == LZT__JSON_STRING;
        if (text ? read_text(node, texts, weight, found) : lzt__weight_read(node, weight, found)) continue;
        snprintf(what, sizeof what, "the row's `%.60s`", *name);
        return lzt__weight_refuse(where, what, found, err);
    }
    return LZT_OK;
}

lzt_status lzt__weights_allow(float by, const float *weight, uint64_t n, const char *what, const char *where,
                              lzt_error *err)
{
    float product;
    char words[96], found[LZT_REAL_TEXT];
    for (uint64_t i = 0; by != 1 && i < n; i++) {
        if (is_weight((double)by * (double)weight[i], &product)) continue;
        snprintf(words, sizeof words, "the row's weight times that of %s %llu", what, (unsigned long long)i + 1);
        return lzt__weight_refuse(where, words, lzt__real_text_f32((float)((double)by * (double)weight[i]), found),
                                  err);
    }
    return LZT_OK;
}

lzt__weighing lzt__weigh(const float *weights, uint64_t n)
{
    lzt__weighing all = {0};
    for (uint64_t i = 0; i < n; i++) {
        all.sum += (double)weights[i];
        all.weighted += weights[i] != 0 && weights[i] != 1;
    }
    return all;
}
