/* Reads plan.json: strict in keys, types, order and ranges, bounded in size. What the file states about itself beyond
 * the decisions (counts, exposed times, ...) is checked for type and recomputed when it is needed. */
#include "plan/plan_json.h"
#include "base/os.h"
#include "profile/json_read.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t as_ps(const lzt__json_node *node, double max)
{
    return (uint64_t)llround(lzt__json_as_real(node, 0, max) * 1e9);
}

uint64_t lzt__plan_member_ps(const lzt__json_node *node, const char *key, double max)
{
    lzt__json_node member = lzt__json_member(node, key);
    return as_ps(&member, max);
}

static void read_model(const lzt__json_node *root, lzt_plan *plan)
{
    lzt__json_node model = lzt__json_member(root, "model"), fingerprint;
    char hex[32], *end = NULL;
    lzt__json_keys(&model, "name fingerprint layers");
    lzt__json_text(&model, "name", plan->model_name, sizeof plan->model_name);
    fingerprint = lzt__json_member(&model, "fingerprint");
    lzt__json_text(&model, "fingerprint", hex, sizeof hex);
    bool is_hex = strspn(hex, "0123456789abcdef") == strlen(hex);
    if (strlen(hex) != 16 || !is_hex) lzt__json_fail(&fingerprint, "is \"%s\", must be 16 hexadecimal digits", hex);
    plan->model_fingerprint = strtoull(hex, &end, 16);
}

static lzt_dtype read_dtype(const lzt__json_node *node, const char *key)
{
    static const char *const names[] = {"f32", "bf16"};
    lzt__json_node member = lzt__json_member(node, key);
    return lzt__json_as_choice(&member, names, 2) ? LZT_DTYPE_BF16 : LZT_DTYPE_F32;
}

static void read_numerics(const lzt__json_node *root, lzt_plan *plan)
{
    lzt__json_node node = lzt__json_member(root, "numerics");
    lzt_numerics *n = &plan->numerics;
    lzt__json_keys(&node, "micro_batch_tokens loss_chunk layer_splits? attention_tile threads dtype grad_dtype");
    n->micro_batch_tokens = lzt__json_u64(&node, "micro_batch_tokens", 1, LZT_PLAN_NUMBERS_MAX);
    n->loss_chunk = lzt__json_u64(&node, "loss_chunk", 1, LZT_PLAN_NUMBERS_MAX);
    if (lzt__json_has(&node, "layer_splits"))
        n->layer_splits = lzt__json_u64(&node, "layer_splits", 0, LZT_PLAN_LAYERS_MAX);
    n->attention_tile = lzt__json_u64(&node, "attention_tile", 0, LZT_PLAN_NUMBERS_MAX);
    n->threads = lzt__json_u64(&node, "threads", 0, 65536);
    n->dtype = read_dtype(&node, "dtype");
    n->grad_dtype = read_dtype(&node, "grad_dtype");
}

static lzt_tier read_tier(const lzt__json_node *node, int count)
{
    static const char *const names[] = {"gpu", "cpu", "nvme", "recompute"};
    lzt__json_node member = lzt__json_member(node, "tier");
    return (lzt_tier)lzt__json_as_choice(&member, names, count);
}

static void read_boundaries(const lzt__json_node *root, lzt_plan *plan)
{
    lzt__json_node list = lzt__json_member(root, "boundaries");
    uint64_t count = lzt__json_length(&list, 0, 2 * (plan->layer_count + 1)); /* so that a duplicate can be named */
    for (uint64_t i = 0; i < count; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        lzt__json_keys(&item, "index tier");
        uint64_t index = lzt__json_u64(&item, "index", 0, plan->layer_count);
        if (index < i) lzt__json_fail(&item, "is boundary %" PRIu64 " a second time", index);
        if (index > i) lzt__json_fail(&item, "is boundary %" PRIu64 "; %" PRIu64 " is missing before it", index, i);
        if (root->reader->status) return;
        plan->boundary[i] = read_tier(&item, 4);
    }
    lzt__json_length(&list, plan->layer_count + 1, plan->layer_count + 1);
}

/* A list of increasing indices below count, of what `noun` says. */
static void read_indices(const lzt__json_node *list, const char *noun, bool *set, uint64_t count)
{
    uint64_t length = lzt__json_length(list, 0, 2 * count), least = 0; /* so that what is there twice can be named */
    for (uint64_t i = 0; i < length; i++) {
        lzt__json_node item = lzt__json_element(list, i);
        uint64_t index = lzt__json_as_u64(&item, 0, count - 1);
        if (list->reader->status) return;
        if (set[index]) lzt__json_fail(&item, "is %s %" PRIu64 " a second time", noun, index);
        if (index < least) lzt__json_fail(&item, "is %s %" PRIu64 ", out of order", noun, index);
        if (list->reader->status) return;
        set[index] = true;
        least = index + 1;
    }
}

/* `internals` and its like: a layer is in one of them at most. */
static void read_internals(const lzt__json_node *root, const char *key, lzt_tier tier, lzt_plan *plan)
{
    if (!lzt__json_has(root, key)) return;
    lzt__json_node list = lzt__json_member(root, key);
    uint64_t length = lzt__json_length(&list, 0, 2 * plan->layer_count), least = 0;
    for (uint64_t i = 0; i < length; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        uint64_t layer = lzt__json_as_u64(&item, 0, plan->layer_count - 1);
        if (root->reader->status) return;
        if (plan->internals[layer] == tier) lzt__json_fail(&item, "is layer %" PRIu64 " a second time", layer);
        if (plan->internals[layer] != LZT_TIER_RECOMPUTE)
            lzt__json_fail(&item, "is layer %" PRIu64 ", whose internals are already on %s", layer,
                           lzt_tier_name(plan->internals[layer]));
        if (layer < least) lzt__json_fail(&item, "is layer %" PRIu64 ", out of order", layer);
        if (root->reader->status) return;
        plan->internals[layer] = tier;
        least = layer + 1;
    }
}

static uint64_t read_state_unit(const lzt__json_node *item, uint64_t layer_count)
{
    static const char *const names[] = {LZT__STATE_EMBEDDING, LZT__STATE_FINAL_NORM, LZT__STATE_HEAD};
    const uint64_t unit[] = {0, layer_count + 1, layer_count + 2};
    lzt__json_node layer = lzt__json_member(item, "layer");
    if (json_is_string(layer.json)) return unit[lzt__json_as_choice(&layer, names, 3)];
    return lzt__json_as_u64(&layer, 0, layer_count - 1) + 1;
}

static void read_state_place(const lzt__json_node *item, uint64_t layer_count, lzt_state_place *place)
{
    static const char *const objects[] = {"weights", "gradients", "master", "moments"};
    lzt__json_node object = lzt__json_member(item, "object"), tier = lzt__json_member(item, "tier");
    lzt__json_keys(item, "object layer tier");
    place->object = (lzt_state_object)lzt__json_as_choice(&object, objects, LZT_STATE_COUNT);
    place->unit = read_state_unit(item, layer_count);
    place->tier = read_tier(item, 3);
    if (place->tier == LZT_TIER_GPU) lzt__json_fail(&tier, "is gpu; training state lives on cpu or nvme");
}

/* Whether one before the index-th is of the same object and unit. */
static bool is_there_before(const lzt_plan *plan, uint64_t index)
{
    const lzt_state_place *place = plan->state;
    for (uint64_t i = 0; i < index; i++)
        if (place[i].unit == place[index].unit && place[i].object == place[index].object) return true;
    return false;
}

static lzt_status read_state(const lzt__json_node *root, lzt_plan *plan, lzt_error *err)
{
    if (!lzt__json_has(root, "state")) return LZT_OK;
    lzt__json_node list = lzt__json_member(root, "state");
    uint64_t count = lzt__json_length(&list, 0, 2 * (plan->layer_count + 3) * LZT_STATE_COUNT), least = 0;
    if (!count) return root->reader->status;
    plan->state = calloc(count, sizeof *plan->state);
    if (!plan->state) return lzt_fail(err, LZT_ERR_NO_MEMORY, "state", "no memory to read it");
    plan->state_count = count;
    for (uint64_t i = 0; i < count; i++) {
        lzt__json_node item = lzt__json_element(&list, i);
        read_state_place(&item, plan->layer_count, &plan->state[i]);
        uint64_t key = plan->state[i].unit * LZT_STATE_COUNT + (uint64_t)plan->state[i].object;
        if (key < least && is_there_before(plan, i))
            lzt__json_fail(&item, "places the same %s of the same layer a second time",
                           lzt_state_name(plan->state[i].object));
        if (key < least) lzt__json_fail(&item, "is out of order (by unit, then weights, gradients, master, moments)");
        if (root->reader->status) return root->reader->status;
        least = key + 1;
    }
    return LZT_OK;
}

static void read_placement(const lzt__json_node *root, lzt_plan *plan)
{
    lzt__json_node list;
    read_boundaries(root, plan);
    read_internals(root, "internals", LZT_TIER_GPU, plan);
    read_internals(root, "internals_cpu", LZT_TIER_CPU, plan);
    read_internals(root, "internals_nvme", LZT_TIER_NVME, plan);
    if (lzt__json_has(root, "weights")) {
        list = lzt__json_member(root, "weights");
        read_indices(&list, "layer", plan->weights, plan->layer_count);
    }
    if (lzt__json_has(root, "head_weights")) plan->head_weights = lzt__json_bool(root, "head_weights");
    if (lzt__json_has(root, "prefetch_layers"))
        plan->prefetch_layers = lzt__json_u64(root, "prefetch_layers", 1, LZT_PLAN_LAYERS_MAX);
    if (lzt__json_has(root, "gradient_slots"))
        plan->gradient_slots = lzt__json_u64(root, "gradient_slots", 1, LZT_PLAN_LAYERS_MAX);
    if (lzt__json_has(root, "internals_stages"))
        plan->internals_stages = lzt__json_u64(root, "internals_stages", 1, LZT_PLAN_STAGES_MAX);
}

static void read_planned(const lzt__json_node *root, lzt_plan *plan)
{
    if (!lzt__json_has(root, "planned")) return;
    lzt__json_node node = lzt__json_member(root, "planned");
    lzt__json_keys(&node, "device_bytes host_bytes nvme_bytes layer_forwards weight_uploads");
    plan->device_bytes = lzt__json_u64(&node, "device_bytes", 0, LZT_PLAN_NUMBERS_MAX);
    plan->host_bytes = lzt__json_u64(&node, "host_bytes", 0, LZT_PLAN_NUMBERS_MAX);
    plan->nvme_bytes = lzt__json_u64(&node, "nvme_bytes", 0, LZT_PLAN_NUMBERS_MAX);
    plan->layer_forwards = lzt__json_u64(&node, "layer_forwards", 0, LZT_PLAN_NUMBERS_MAX);
    plan->weight_uploads = lzt__json_u64(&node, "weight_uploads", 0, LZT_PLAN_NUMBERS_MAX);
}

static void read_solution(const lzt__json_node *root, lzt_plan *plan)
{
    static const char *const names[] = {"not solved", "optimal", "feasible", "infeasible", "limit"};
    static const char *const limits[] = {"work", "clock"};
    if (!lzt__json_has(root, "status")) return;
    lzt__json_node status = lzt__json_member(root, "status");
    plan->status = (lzt_plan_status)lzt__json_as_choice(&status, names, 5);
    if (lzt__json_has(root, "limit")) {
        lzt__json_node limit = lzt__json_member(root, "limit");
        plan->cut = (lzt_plan_cut)(1 + lzt__json_as_choice(&limit, limits, 2));
    }
    if (lzt__json_has(root, "solver")) lzt__json_text(root, "solver", plan->solver, sizeof plan->solver);
    plan->objective_ps = lzt__plan_member_ps(root, "objective_ms", 2e9);
    plan->bound_ps = lzt__plan_member_ps(root, "bound_ms", 2e9);
    plan->solve_seconds = lzt__json_real(root, "solve_seconds", 0, 1e9);
}

static void read_source(const lzt__json_node *root, lzt_plan_source *s)
{
    static const char *const modes[] = {"gds", "cpu_staging"};
    lzt__json_node node = lzt__json_member(root, "source"), mode = lzt__json_member(&node, "nvme_transfer_mode");
    lzt__json_keys(&node, "batch_size max_seq_len dtype_bytes peak_cap_gib nvme_enabled nvme_transfer_mode "
                          "nvme_pcie_path? optimizer_mode optimizer_8bit_fraction optimizer_step_seconds "
                          "reference_schedule topology? rank? world_size?");
    s->batch_size = lzt__json_u64(&node, "batch_size", 1, LZT_PLAN_NUMBERS_MAX);
    s->max_seq_len = lzt__json_u64(&node, "max_seq_len", 1, LZT_PLAN_NUMBERS_MAX);
    s->dtype_bytes = lzt__json_u64(&node, "dtype_bytes", 1, 8);
    s->peak_cap_gib = lzt__json_real(&node, "peak_cap_gib", 0, 1e9);
    s->nvme_enabled = lzt__json_bool(&node, "nvme_enabled");
    s->cpu_staging = lzt__json_as_choice(&mode, modes, 2) == 1;
    lzt__json_text(&node, "optimizer_mode", s->optimizer_mode, sizeof s->optimizer_mode);
    s->optimizer_8bit_fraction = lzt__json_real(&node, "optimizer_8bit_fraction", 0, 1);
    s->optimizer_step_s = lzt__json_real(&node, "optimizer_step_seconds", -1e9, 1e9);
    lzt__json_text(&node, "reference_schedule", s->reference, sizeof s->reference);
    if (!lzt__json_has(&node, "topology")) return;
    lzt__json_text(&node, "topology", s->topology, sizeof s->topology);
    s->world_size = lzt__json_u64(&node, "world_size", 1, LZT_PLAN_NUMBERS_MAX);
    s->rank = lzt__json_u64(&node, "rank", 0, s->world_size ? s->world_size - 1 : 0);
}

void lzt__plan_read_numbers(const lzt__json_node *list, uint64_t *value, uint64_t count, bool is_ms)
{
    uint64_t length = lzt__json_length(list, count, count);
    for (uint64_t i = 0; i < length && !list->reader->status; i++) {
        lzt__json_node item = lzt__json_element(list, i);
        value[i] = is_ms ? as_ps(&item, LZT__PLAN_MS_MAX) : lzt__json_as_u64(&item, 0, LZT_PLAN_NUMBERS_MAX);
    }
}

static void read_problem_scalars(const lzt__json_node *node, lzt_problem *p)
{
    lzt__json_node budget = lzt__json_member(node, "budget_bytes"), rate = lzt__json_member(node, "bytes_per_s");
    lzt__json_keys(&budget, "gpu cpu nvme");
    lzt__json_keys(&rate, "d2h h2d nvme_write nvme_read");
    p->max_segment = lzt__json_u64(node, "max_segment", 1, LZT_PLAN_NUMBERS_MAX);
    for (int t = 0; t < 3; t++)
        p->budget_bytes[t] = lzt__json_u64(&budget, lzt_tier_name((lzt_tier)t), 0, LZT_PLAN_NUMBERS_MAX);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++)
        p->bytes_per_s[pool] = lzt__json_u64(&rate, lzt_pool_name((lzt_pool)pool), 1, LZT_PLAN_NUMBERS_MAX);
    p->overlap_aware_pcie = lzt__json_bool(node, "overlap_aware_pcie");
    p->overlap_aware_nvme = lzt__json_bool(node, "overlap_aware_nvme");
    p->tiebreak_ps = lzt__plan_member_ps(node, "tiebreak_ms", LZT__PLAN_MS_MAX);
    p->penalty_ps = lzt__plan_member_ps(node, "penalty_ms", LZT__PLAN_MS_MAX);
    p->lock_edges = lzt__json_bool(node, "lock_edges");
    p->lock_gpu = lzt__json_bool(node, "lock_gpu");
}

static void read_problem_arrays(const lzt__json_node *node, lzt_problem *p)
{
    const uint64_t n = p->layer_count;
    lzt__json_node window = lzt__json_member(node, "window_bytes"), list;
    lzt__json_node mandatory = lzt__json_member(node, "mandatory_bytes");
    lzt__json_keys(&window, "d2h h2d nvme_write nvme_read");
    lzt__json_keys(&mandatory, "d2h h2d");
    list = lzt__json_member(node, "boundary_bytes");
    lzt__plan_read_numbers(&list, p->boundary_bytes, n + 1, false);
    list = lzt__json_member(node, "recompute_ms");
    lzt__plan_read_numbers(&list, p->recompute_ps, n, true);
    for (int pool = 0; pool < LZT_POOL_COUNT; pool++) {
        list = lzt__json_member(&window, lzt_pool_name((lzt_pool)pool));
        lzt__plan_read_numbers(&list, p->window_bytes[pool], n, false);
    }
    for (int pool = 0; pool < 2; pool++) {
        list = lzt__json_member(&mandatory, lzt_pool_name((lzt_pool)pool));
        lzt__plan_read_numbers(&list, p->mandatory_bytes[pool], n, false);
    }
    list = lzt__json_member(node, "locked_checkpoints");
    read_indices(&list, "boundary", p->locked_checkpoint, n + 1);
    list = lzt__json_member(node, "locked_gpu");
    read_indices(&list, "boundary", p->locked_gpu, n + 1);
}

static lzt_status read_problem(const lzt__json_node *root, lzt_plan *plan, lzt_error *err)
{
    if (!lzt__json_has(root, "problem")) return LZT_OK;
    lzt_error why = {0};
    lzt__json_node node = lzt__json_member(root, "problem");
    plan->problem = calloc(1, sizeof *plan->problem);
    if (!plan->problem) return lzt_fail(err, LZT_ERR_NO_MEMORY, "problem", "no memory to read it");
    lzt_status status = lzt_problem_init(plan->problem, plan->layer_count, err);
    if (status) return status;
    lzt__json_keys(&node, "max_segment budget_bytes bytes_per_s overlap_aware_pcie overlap_aware_nvme tiebreak_ms "
                          "penalty_ms lock_edges locked_checkpoints lock_gpu locked_gpu boundary_bytes recompute_ms "
                          "window_bytes mandatory_bytes");
    read_problem_scalars(&node, plan->problem);
    read_problem_arrays(&node, plan->problem);
    read_source(root, &plan->source);
    if (!root->reader->status && lzt_problem_validate(plan->problem, &why))
        lzt__json_fail(root, "is refused: %s %s", why.where, why.message);
    return root->reader->status;
}

static lzt_status read_plan(const lzt__json_node *root, lzt_plan *plan, lzt_error *err)
{
    static const char *const format[] = {LZT__PLAN_FORMAT};
    lzt__json_node name = lzt__json_member(root, "format"), model = lzt__json_member(root, "model");
    lzt__json_as_choice(&name, format, 1);
    lzt__json_u64(root, "version", LZT_PLAN_VERSION, LZT_PLAN_VERSION);
    uint64_t layer_count = lzt__json_u64(&model, "layers", 1, LZT_PLAN_LAYERS_MAX);
    lzt__json_keys(root, LZT__PLAN_KEYS);
    if (root->reader->status) return root->reader->status;
    lzt_status status = lzt_plan_init(plan, layer_count, err);
    if (status) return status;
    read_model(root, plan);
    read_numerics(root, plan);
    read_placement(root, plan);
    status = read_state(root, plan, err);
    if (status) return status;
    read_planned(root, plan);
    read_solution(root, plan);
    status = read_problem(root, plan, err);
    if (!status) status = lzt__plan_read_step(root, plan, err);
    return status ? status : root->reader->status;
}

lzt_status lzt_plan_parse(const char *text, uint64_t text_bytes, const char *where, lzt_plan *plan, lzt_error *err)
{
    lzt__json_reader reader;
    memset(plan, 0, sizeof *plan);
    if (text_bytes > LZT_PLAN_BYTES_MAX)
        return lzt_fail(err, LZT_ERR_USAGE, where, "is larger than %" PRIu64 " bytes", LZT_PLAN_BYTES_MAX);
    lzt_status status = lzt__json_begin(&reader, text, text_bytes, where, LZT_ERR_USAGE, err);
    if (status) return status;
    lzt__json_node root = lzt__json_root(&reader);
    status = read_plan(&root, plan, err);
    lzt_status read = lzt__json_end(&reader);
    if (!status) status = read;
    if (status) lzt_plan_fini(plan);
    return status;
}

lzt_status lzt_plan_read(const char *path, lzt_plan *plan, lzt_error *err)
{
    char *text = NULL;
    uint64_t text_bytes = 0;
    memset(plan, 0, sizeof *plan);
    lzt_status status = lzt__os_read_file(lzt__os_posix(), path, LZT_PLAN_BYTES_MAX, &text, &text_bytes, err);
    if (status == LZT_ERR_STORAGE && err) err->status = LZT_ERR_USAGE; /* the path comes from the user */
    if (status == LZT_ERR_STORAGE) status = LZT_ERR_USAGE;
    if (!status) status = lzt_plan_parse(text, text_bytes, path, plan, err);
    free(text);
    return status;
}
