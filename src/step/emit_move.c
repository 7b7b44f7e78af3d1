/* A layer's internals to the host and back.
 *
 * They are large: a copy of them takes as long as several layers' compute, and a lane runs in order, so that what the
 * layers between need would wait behind it. So they move in pieces, under several stages. The pieces do not depend on
 * how many: what the copies cost is the same in any plan.
 *
 *     D2H  x.L4  qkv.L3[0]  x.L5  qkv.L3[1]  x.L6  o.L3  gu.L3[0]  x.L7  gu.L3[1] ...
 */
#include "step/emit.h"

/* A layer has about this many pieces, none of which is smaller than an object or the least. */
enum { PIECES = 16 };
#define LEAST_PIECE_BYTES (UINT64_C(1) << 20)

static uint64_t bytes_of(const lzt_builder *b, uint32_t object)
{
    return b->program->objects[object].bytes;
}

static uint64_t piece_bytes(const lzt_builder *b, uint32_t *const *field, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += bytes_of(b, *field[i]);
    bytes = (bytes / PIECES + LZT_DEV_ALIGNMENT) / LZT_DEV_ALIGNMENT * LZT_DEV_ALIGNMENT;
    return bytes > LEAST_PIECE_BYTES ? bytes : LEAST_PIECE_BYTES;
}

static void make_targets(lzt_builder *b, lzt_lane lane, const lzt_layer_objects *o, lzt_move *move)
{
    uint32_t *field[LZT_INTERNALS];
    move->to = *o;
    uint32_t count = lzt__layer_internals(&move->to, field);
    for (uint32_t i = 0; i < count && !b->failed; i++)
        *field[i] = lzt__object(b, lane == LZT_LANE_D2H ? LZT_SPACE_HOST : LZT_SPACE_DEVICE, bytes_of(b, *field[i]),
                                "%s", b->program->objects[*field[i]].name);
}

/* Emits pieces begin .. end - 1 of all; returns how many there are. */
static uint32_t copy_pieces(lzt_builder *b, uint32_t layer, lzt_lane lane, lzt_layer_objects *from,
                            lzt_layer_objects *to, uint32_t begin, uint32_t end)
{
    uint32_t *source[LZT_INTERNALS], *target[LZT_INTERNALS], at = 0;
    uint32_t count = lzt__layer_internals(from, source);
    lzt__layer_internals(to, target);
    uint64_t most = b->failed ? 1 : piece_bytes(b, source, count);
    for (uint32_t i = 0; i < count && !b->failed; i++) {
        uint64_t bytes = bytes_of(b, *source[i]);
        const char *name = b->program->objects[*source[i]].name, *way = lane == LZT_LANE_D2H ? "down" : "up";
        for (uint64_t offset = 0; offset < bytes; offset += most, at++) {
            uint64_t length = bytes - offset < most ? bytes - offset : most;
            if (at >= begin && at < end)
                lzt__copy(b, lane, (int32_t)layer, *source[i], offset, *target[i], offset, length, "%s.%s", way, name);
        }
    }
    return at;
}

bool lzt__move_internals(lzt_builder *b, uint32_t layer, lzt_lane lane, uint32_t left, lzt_layer_objects *o,
                         lzt_move *move)
{
    uint32_t stages = (uint32_t)b->plan->internals_stages;
    if (!move->stages) make_targets(b, lane, o, move);
    uint32_t count = copy_pieces(b, layer, lane, o, &move->to, 0, 0);
    uint32_t end = left ? count * ++move->stages / stages : count;
    copy_pieces(b, layer, lane, o, &move->to, move->pieces, end);
    move->pieces = end;
    if (end < count) return false;
    *o = move->to;
    *move = (lzt_move){0};
    return true;
}
