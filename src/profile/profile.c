/* The profile as data, and its JSON file. Contract: lazytrain/profile.h. */
#include "lazytrain/profile.h"

#include "base/os.h"
#include "profile/json_read.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT     "lazytrain-profile"
#define VALUE_MAX  1e18
#define NUMBER_MAX (UINT64_C(1) << 62)

/* The keys of one measurement in the file. */
static const struct {
    const char *list, *size, *value, *keys;
} layout[LZT_MEASURE_COUNT] = {
    {"rates", "block_bytes", "bytes_per_s", "name block_bytes bytes_per_s min max count"},
    {"times", "tokens", "seconds", "name tokens seconds min max count"},
};

void lzt_profile_fini(lzt_profile *profile)
{
    free(profile->measurement);
    memset(profile, 0, sizeof *profile);
}

static int order(const lzt_measurement *a, const lzt_measurement *b)
{
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    int by_name = strcmp(a->name, b->name);
    return by_name ? by_name : (a->size > b->size) - (a->size < b->size);
}

static lzt_status check(const lzt_measurement *m, lzt_error *err)
{
    bool ordered = m->min >= 0 && m->min <= m->median && m->median <= m->max && m->max <= VALUE_MAX;
    if (!m->name[0] || !memchr(m->name, 0, sizeof m->name))
        return lzt_fail(err, LZT_ERR_USAGE, "profile", "a measurement has no name, or one without an end");
    if (!ordered)
        return lzt_fail(err, LZT_ERR_USAGE, m->name, "min %g, median %g, max %g are not in order from 0 to %g", m->min,
                        m->median, m->max, VALUE_MAX);
    if (!m->count || m->count > NUMBER_MAX || m->size > NUMBER_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, m->name, "count or size is out of range");
    return LZT_OK;
}

lzt_status lzt_profile_add(lzt_profile *profile, const lzt_measurement *m, lzt_error *err)
{
    assert(m->kind >= 0 && m->kind < LZT_MEASURE_COUNT);
    uint64_t count = profile->measurement_count, at = 0;
    lzt_status status = check(m, err);
    if (status) return status;
    while (at < count && order(&profile->measurement[at], m) < 0) at++;
    if (at < count && !order(&profile->measurement[at], m)) {
        profile->measurement[at] = *m;
        return LZT_OK;
    }
    if (count >= LZT_PROFILE_MEASUREMENTS_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, "profile", "holds %" PRIu64 " measurements already", count);
    lzt_measurement *grown = realloc(profile->measurement, (count + 1) * sizeof *grown);
    if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, "profile", "no memory for a measurement");
    memmove(grown + at + 1, grown + at, (count - at) * sizeof *grown);
    grown[at] = *m;
    profile->measurement = grown;
    profile->measurement_count = count + 1;
    return LZT_OK;
}

static double distance(uint64_t a, uint64_t b)
{
    return fabs(log2((double)a + 1) - log2((double)b + 1));
}

const lzt_measurement *lzt_profile_find(const lzt_profile *profile, lzt_measure kind, const char *name, uint64_t size)
{
    const lzt_measurement *best = NULL;
    for (uint64_t i = 0; i < profile->measurement_count; i++) {
        const lzt_measurement *m = &profile->measurement[i];
        if (m->kind != kind || strcmp(m->name, name)) continue;
        if (!best || distance(m->size, size) < distance(best->size, size)) best = m;
    }
    return best;
}

/* ---- the file ---- */

static void read_one(const lzt__json_node *item, lzt_measure kind, lzt_measurement *m)
{
    *m = (lzt_measurement){.kind = kind};
    lzt__json_keys(item, layout[kind].keys);
    lzt__json_text(item, "name", m->name, sizeof m->name);
    m->size = lzt__json_u64(item, layout[kind].size, 0, NUMBER_MAX);
    m->median = lzt__json_real(item, layout[kind].value, 0, VALUE_MAX);
    m->min = lzt__json_real(item, "min", 0, m->median);
    m->max = lzt__json_real(item, "max", m->median, VALUE_MAX);
    m->count = lzt__json_u64(item, "count", 1, NUMBER_MAX);
    if (!item->reader->status && !m->name[0]) lzt__json_fail(item, "has an empty name");
}

/* A list is in the order that print writes, so that adding to the end is all that happens here. */
static lzt_status read_list(const lzt__json_node *root, lzt_measure kind, lzt_profile *profile, lzt_error *err)
{
    lzt__json_node list = lzt__json_member(root, layout[kind].list);
    uint64_t count = lzt__json_length(&list, 0, LZT_PROFILE_MEASUREMENTS_MAX / LZT_MEASURE_COUNT);
    uint64_t have = profile->measurement_count;
    if (!count) return root->reader->status;
    lzt_measurement *grown = realloc(profile->measurement, (have + count) * sizeof *grown);
    if (!grown) return lzt_fail(err, LZT_ERR_NO_MEMORY, "profile", "no memory to read it");
    profile->measurement = grown;
    for (uint64_t i = 0; i < count; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        lzt_measurement *m = &grown[profile->measurement_count];
        read_one(&item, kind, m);
        if (profile->measurement_count && !root->reader->status && order(m - 1, m) >= 0)
            lzt__json_fail(&item, "is out of order (by name, then size)");
        if (root->reader->status) return root->reader->status;
        profile->measurement_count++;
    }
    return LZT_OK;
}

static lzt_status read_profile(const lzt__json_node *root, lzt_profile *profile, lzt_error *err)
{
    static const char *const format[] = {FORMAT};
    lzt__json_node name = lzt__json_member(root, "format"), capacity = lzt__json_member(root, "capacity");
    lzt__json_as_choice(&name, format, 1);
    lzt__json_u64(root, "version", LZT_PROFILE_VERSION, LZT_PROFILE_VERSION);
    bool drive = lzt__json_has(root, "drive");
    lzt__json_keys(root, drive ? "format version machine device drive capacity rates times"
                               : "format version machine device capacity rates times");
    if (drive) lzt__json_text(root, "drive", profile->drive, sizeof profile->drive);
    lzt__json_text(root, "machine", profile->machine, sizeof profile->machine);
    lzt__json_text(root, "device", profile->device, sizeof profile->device);
    lzt__json_keys(&capacity, "device_bytes host_bytes nvme_bytes");
    profile->device_bytes = lzt__json_u64(&capacity, "device_bytes", 0, NUMBER_MAX);
    profile->host_bytes = lzt__json_u64(&capacity, "host_bytes", 0, NUMBER_MAX);
    profile->nvme_bytes = lzt__json_u64(&capacity, "nvme_bytes", 0, NUMBER_MAX);
    lzt_status status = root->reader->status;
    for (int kind = 0; !status && kind < LZT_MEASURE_COUNT; kind++)
        status = read_list(root, (lzt_measure)kind, profile, err);
    return status;
}

lzt_status lzt_profile_parse(const char *text, uint64_t text_bytes, const char *where, lzt_profile *profile,
                             lzt_error *err)
{
    lzt__json_reader reader;
    memset(profile, 0, sizeof *profile);
    if (text_bytes > LZT_PROFILE_BYTES_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, where, "is larger than %" PRIu64 " bytes", LZT_PROFILE_BYTES_MAX);
    lzt_status status = lzt__json_begin(&reader, text, text_bytes, where, LZT_ERR_USAGE, err);
    if (status) return status;
    lzt__json_node root = lzt__json_root(&reader);
    status = read_profile(&root, profile, err);
    lzt__json_end(&reader);
    if (status) lzt_profile_fini(profile);
    return status;
}

lzt_status lzt_profile_read(const char *path, lzt_profile *profile, lzt_error *err)
{
    char *text = NULL;
    uint64_t text_bytes = 0;
    memset(profile, 0, sizeof *profile);
    lzt_status status = lzt__os_read_file(lzt__os_posix(), path, LZT_PROFILE_BYTES_MAX, &text, &text_bytes, err);
    if (status == LZT_ERR_STORAGE && err) err->status = LZT_ERR_USAGE; /* the path comes from the user */
    if (status) return status == LZT_ERR_STORAGE ? LZT_ERR_USAGE : status;
    status = lzt_profile_parse(text, text_bytes, path, profile, err);
    free(text);
    return status;
}

static json_t *measurement_json(const lzt_measurement *m)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "name", m->name, layout[m->kind].size, (json_int_t)m->size,
                     layout[m->kind].value, m->median, "min", m->min, "max", m->max, "count", (json_int_t)m->count);
}

static json_t *with_drive(json_t *json, const lzt_profile *p)
{
    if (json && p->drive[0] && json_object_set_new(json, "drive", json_string(p->drive))) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *profile_json(const lzt_profile *p)
{
    json_t *list[LZT_MEASURE_COUNT] = {json_array(), json_array()};
    for (uint64_t i = 0; i < p->measurement_count; i++)
        json_array_append_new(list[p->measurement[i].kind], measurement_json(&p->measurement[i]));
    json_t *json = json_pack("{s:s, s:i, s:s, s:s, s:{s:I, s:I, s:I}, s:o, s:o}", "format", FORMAT, "version",
                             LZT_PROFILE_VERSION, "machine", p->machine, "device", p->device, "capacity",
                             "device_bytes", (json_int_t)p->device_bytes, "host_bytes", (json_int_t)p->host_bytes,
                             "nvme_bytes", (json_int_t)p->nvme_bytes, layout[0].list, list[0], layout[1].list, list[1]);
    return with_drive(json, p);
}

lzt_status lzt_profile_print(const lzt_profile *profile, char **text, lzt_error *err)
{
    json_t *json = profile_json(profile);
    char *body = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(json);
    *text = NULL;
    if (!body || asprintf(text, "%s\n", body) < 0) {
        *text = NULL;
        free(body);
        return lzt_fail(err, LZT_ERR_USAGE, "profile", "cannot be printed: a name is not UTF-8, or memory is out");
    }
    free(body);
    return LZT_OK;
}

lzt_status lzt_profile_write(const char *path, const lzt_profile *profile, lzt_error *err)
{
    char *text;
    lzt_status status = lzt_profile_print(profile, &text, err);
    if (status) return status;
    status = lzt__os_write_file_atomic(lzt__os_posix(), path, text, strlen(text), err);
    free(text);
    return status;
}
