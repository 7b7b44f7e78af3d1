/* The rope settings of a config.json.
 *
 * Spellings, oldest first: top-level "rope_theta" with "rope_scaling": null or {"type"|"rope_type": ..., ...};
 * "rope_parameters": {"rope_type": ..., "rope_theta": ..., ...}; "rope_parameters" by layer type
 * ({"full_attention": {...}, "sliding_attention": {...}}), of which only Gemma 3 gives its layers different ones: the
 * tables then hold those of full attention. A value that stands in two places must be equal in both.
 */
#include "model_config_rope.h"

#include <math.h>
#include <string.h>

static bool is_by_layer_type(const json_t *parameters)
{
    return json_is_object(json_object_get(parameters, "full_attention")) ||
           json_is_object(json_object_get(parameters, "sliding_attention"));
}

/* Picks the settings of the layer type that the tables describe. */
static const json_t *of_full_attention(lzt__model_json *j, lzt_arch arch, const json_t *parameters)
{
    const json_t *full = json_object_get(parameters, "full_attention");
    const json_t *sliding = json_object_get(parameters, "sliding_attention");
    if (arch != LZT_ARCH_GEMMA3 && full && sliding && !json_equal(full, sliding))
        lzt__model_json_fail(j, "rope_parameters", "differs by layer type, which this architecture does not have");
    return json_is_object(full) ? full : sliding;
}

/* The object that holds type and factors, or NULL. */
static const json_t *find_parameters(lzt__model_json *j, lzt_arch arch, bool *is_old_spelling)
{
    const json_t *fresh = lzt__model_json_object(j, "rope_parameters");
    const json_t *old = lzt__model_json_object(j, "rope_scaling");
    if (fresh && is_by_layer_type(fresh)) fresh = of_full_attention(j, arch, fresh);
    if (fresh && old && !json_equal(fresh, old))
        lzt__model_json_fail(j, "rope_scaling", "stands beside a different \"rope_parameters\"");
    *is_old_spelling = !fresh;
    return fresh ? fresh : old;
}

static lzt_rope_type parse_type(lzt__model_json *j, bool is_old_spelling)
{
    static const struct {
        const char *name;
        lzt_rope_type type;
    } names[] = {{"default", LZT_ROPE_DEFAULT},
                 {"linear", LZT_ROPE_LINEAR},
                 {"llama3", LZT_ROPE_LLAMA3},
                 {"yarn", LZT_ROPE_YARN}};
    const char *fresh = lzt__model_json_string(j, "rope_type", NULL), *old = lzt__model_json_string(j, "type", NULL);
    if (fresh && old && strcmp(fresh, old))
        lzt__model_json_fail(j, "type", "is \"%.32s\" but \"rope_type\" is \"%.32s\"", old, fresh);
    const char *name = fresh ? fresh : old;
    if (!name && is_old_spelling) lzt__model_json_fail(j, "rope_type", "is missing");
    if (!name) return LZT_ROPE_DEFAULT;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i].name)) return names[i].type;
    lzt__model_json_fail(j, "rope_type", "is \"%.64s\"; known are default, linear, llama3 and yarn", name);
    return LZT_ROPE_DEFAULT;
}

static void parse_theta(lzt__model_json *j, lzt__model_json *nested, double default_theta, lzt__model_rope *rope)
{
    double top = lzt__model_json_number(j, "rope_theta", 0.0, 1.0001, 1e18);
    double inner = nested->object ? lzt__model_json_number(nested, "rope_theta", 0.0, 1.0001, 1e18) : 0.0;
    if (top != 0.0 && inner != 0.0 && top != inner)
        lzt__model_json_fail(j, "rope_theta", "is %.17g but \"%srope_theta\" is %.17g", top, nested->prefix, inner);
    rope->theta_is_default = top == 0.0 && inner == 0.0;
    rope->theta = rope->theta_is_default ? default_theta : top != 0.0 ? top : inner;
}

static void parse_partial(lzt__model_json *j, lzt__model_json *nested, double default_partial, lzt__model_rope *rope)
{
    double top = lzt__model_json_number(j, "partial_rotary_factor", 0.0, 1e-6, 1.0);
    double inner = nested->object ? lzt__model_json_number(nested, "partial_rotary_factor", 0.0, 1e-6, 1.0) : 0.0;
    if (top != 0.0 && inner != 0.0 && top != inner)
        lzt__model_json_fail(j, "partial_rotary_factor", "is %g but \"%spartial_rotary_factor\" is %g", top,
                             nested->prefix, inner);
    rope->partial = top != 0.0 ? top : inner != 0.0 ? inner : default_partial;
}

static void parse_llama3(lzt__model_json *nested, lzt__model_rope *rope)
{
    rope->low_freq_factor = lzt__model_json_number(nested, "low_freq_factor", NAN, 1e-6, 1e9);
    rope->high_freq_factor = lzt__model_json_number(nested, "high_freq_factor", NAN, 1e-6, 1e9);
    if (!nested->status && rope->high_freq_factor <= rope->low_freq_factor)
        lzt__model_json_fail(nested, "high_freq_factor", "is not above \"low_freq_factor\"");
}

static void parse_yarn(lzt__model_json *nested, lzt__model_rope *rope)
{
    rope->beta_fast = lzt__model_json_number(nested, "beta_fast", 32.0, 1e-6, 1e9);
    rope->beta_slow = lzt__model_json_number(nested, "beta_slow", 1.0, 1e-6, 1e9);
    rope->mscale = lzt__model_json_number(nested, "mscale", 0.0, 0.0, 1e6);
    rope->mscale_all_dim = lzt__model_json_number(nested, "mscale_all_dim", 0.0, 0.0, 1e6);
    rope->attention_factor = lzt__model_json_number(nested, "attention_factor", 0.0, 1e-6, 1e6);
    rope->truncate = lzt__model_json_bool(nested, "truncate", true);
    if (!nested->status && rope->beta_fast < rope->beta_slow)
        lzt__model_json_fail(nested, "beta_fast", "is below \"beta_slow\"");
}

static void parse_scaling(lzt__model_json *nested, uint64_t max_positions, lzt__model_rope *rope)
{
    if (rope->type == LZT_ROPE_DEFAULT) return;
    double original = (double)max_positions;
    if (rope->type != LZT_ROPE_LINEAR)
        original = lzt__model_json_number(nested, "original_max_position_embeddings", original, 1.0, 1e12);
    rope->original_positions = original;
    /* Only yarn may leave the factor out: it is then the ratio of the two context lengths. */
    double ratio = rope->type == LZT_ROPE_YARN ? (double)max_positions / original : NAN;
    rope->factor = lzt__model_json_number(nested, "factor", ratio, 1e-6, 1e9);
    if (rope->type == LZT_ROPE_LLAMA3) parse_llama3(nested, rope);
    if (rope->type == LZT_ROPE_YARN) parse_yarn(nested, rope);
}

void lzt__model_config_rope(lzt__model_json *j, lzt_arch arch, double default_theta, double default_partial,
                            uint64_t max_positions, lzt__model_rope *rope)
{
    bool is_old_spelling = false;
    lzt__model_json nested = *j;
    nested.object = find_parameters(j, arch, &is_old_spelling);
    nested.prefix = is_old_spelling ? "rope_scaling." : "rope_parameters.";
    nested.status = j->status;
    rope->type = nested.object ? parse_type(&nested, is_old_spelling) : LZT_ROPE_DEFAULT;
    rope->factor = 1.0;
    rope->truncate = true;
    if (nested.object) parse_scaling(&nested, max_positions, rope);
    j->status = nested.status;
    parse_theta(j, &nested, default_theta, rope);
    parse_partial(j, &nested, default_partial, rope);
    if (!j->status) j->status = nested.status;
}
