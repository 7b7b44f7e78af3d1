/* Reads a reference schedule for its locks: a plan.json of ours, or the source's JSON, of which selected_edges and
 * gpu_checkpoints count and everything else is passed over. */
#include "lazytrain/solve.h"

#include "base/os.h"
#include "profile/json_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void lock_plan(const lzt_plan *plan, lzt_problem *p)
{
    for (uint64_t i = 0; i <= p->layer_count; i++) {
        p->locked_checkpoint[i] = p->lock_edges && plan->boundary[i] != LZT_TIER_RECOMPUTE;
        p->locked_gpu[i] = p->lock_gpu && plan->boundary[i] == LZT_TIER_GPU;
    }
}

static lzt_status read_own(const char *text, uint64_t bytes, const char *path, lzt_problem *p, lzt_error *err)
{
    lzt_plan plan;
    lzt_status status = lzt_plan_parse(text, bytes, path, &plan, err);
    if (status) return status;
    if (plan.layer_count != p->layer_count)
        status = lzt_fail(err, LZT_ERR_USAGE, path, "model.layers is %" PRIu64 ", the model has %" PRIu64,
                          plan.layer_count, p->layer_count);
    else
        lock_plan(&plan, p);
    lzt_plan_fini(&plan);
    return status;
}

/* Edges [[0, a], [a, b], ..., [z, N]]: a path, in order. */
static void read_edges(const lzt__json_node *root, lzt_problem *p)
{
    lzt__json_node list = lzt__json_member(root, "selected_edges");
    uint64_t length = lzt__json_length(&list, 1, p->layer_count), at = 0;
    p->locked_checkpoint[0] = true;
    for (uint64_t i = 0; i < length && !root->reader->status; i++) {
        lzt__json_node edge = lzt__json_element(&list, i), start, end;
        lzt__json_length(&edge, 2, 2);
        start = lzt__json_element(&edge, 0);
        end = lzt__json_element(&edge, 1);
        lzt__json_as_u64(&start, at, at);
        at = lzt__json_as_u64(&end, at + 1, p->layer_count);
        p->locked_checkpoint[at] = true;
    }
    if (!root->reader->status && at != p->layer_count)
        lzt__json_fail(&list, "ends at boundary %" PRIu64 ", the model's last is %" PRIu64, at, p->layer_count);
}

static void read_gpu(const lzt__json_node *root, lzt_problem *p)
{
    lzt__json_node list = lzt__json_member(root, "gpu_checkpoints");
    uint64_t length = lzt__json_length(&list, 1, p->layer_count + 1);
    for (uint64_t i = 0; i < length && !root->reader->status; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        uint64_t index = lzt__json_as_u64(&item, 0, p->layer_count);
        if (!root->reader->status) p->locked_gpu[index] = true;
    }
}

static lzt_status read_source(lzt__json_reader *reader, lzt_problem *p)
{
    lzt__json_node root = lzt__json_root(reader);
    if (!json_is_object(reader->root)) return lzt__json_fail(&root, "is not an object");
    if (lzt__json_has(&root, "num_layers")) lzt__json_u64(&root, "num_layers", p->layer_count, p->layer_count);
    if (p->lock_edges) read_edges(&root, p);
    if (p->lock_gpu) read_gpu(&root, p);
    return reader->status;
}

lzt_status lzt_source_reference(const char *path, bool lock_edges, bool lock_gpu, lzt_problem *p, lzt_error *err)
{
    lzt__json_reader reader;
    char *text = NULL;
    uint64_t bytes = 0;
    lzt_status status = lzt__os_read_file(lzt__os_posix(), path, LZT_PLAN_BYTES_MAX, &text, &bytes, err);
    if (status == LZT_ERR_STORAGE && err) err->status = LZT_ERR_USAGE; /* the path comes from the user */
    if (status) return status == LZT_ERR_STORAGE ? LZT_ERR_USAGE : status;
    p->lock_edges = lock_edges;
    p->lock_gpu = lock_gpu;
    status = lzt__json_begin(&reader, text, bytes, path, LZT_ERR_USAGE, err);
    if (!status) {
        bool own = json_is_string(json_object_get(reader.root, "format"));
        if (!own) status = read_source(&reader, p);
        lzt_status ended = lzt__json_end(&reader);
        if (!status) status = own ? read_own(text, bytes, path, p, err) : ended;
    }
    free(text);
    return status;
}
