/* Emitters: what a decoder layer, the head and the optimizer are made of, as tasks. Used by compile.c alone. */
#ifndef LZT_STEP_EMIT_H
#define LZT_STEP_EMIT_H

#include "step/builder.h"

/* The device objects of one pass through a decoder layer; LZT_NO_OBJECT where it has no such. rstd1 .. whole are the
 * internals: what backward needs beside the input boundary and the weights. */
typedef struct lzt_layer_objects {
    uint32_t weights;   /* the layer's unit */
    uint32_t gradients; /* backward: grad_dtype, unit layout */
    uint32_t x;         /* (T, H) boundary l */
    uint32_t rstd1;     /* (T) f32 */
    uint32_t qkv;       /* (T, (Q+2K)*D) rotated in place where the model has no q/k norm */
    uint32_t qk;        /* (T, (Q+K)*D) normed and rotated; only with q/k norm */
    uint32_t o;         /* (T, Q*D) attention output */
    uint32_t lse;       /* (Q, T) f32 */
    uint32_t x1;        /* (T, H) after attention's residual */
    uint32_t rstd2;     /* (T) f32 */
    uint32_t gu;        /* (T, 2F) */
    uint32_t whole;     /* all internals of a layer without operators of its own */
} lzt_layer_objects;

enum { LZT_INTERNALS = 9 };

/* No objects yet. */
lzt_layer_objects lzt__no_layer_objects(void);
/* Where the internals that a layer has stand in *o: field[0 .. count - 1]. */
uint32_t lzt__layer_internals(lzt_layer_objects *o, uint32_t *field[LZT_INTERNALS]);

/* A layer's internals on their way between device and host: whole objects and pieces of large ones, always the same
 * copies, under as many stages as the plan says. */
typedef struct lzt_move {
    lzt_layer_objects to;
    uint32_t stages, pieces; /* that have been emitted */
} lzt_move;

/* emit_move.c: emits the next stage's pieces. After the last ones *o names the objects where they are now. left: stages
 * to come until all have to be there. True: all are. */
bool lzt__move_internals(lzt_builder *b, uint32_t layer, lzt_lane lane, uint32_t left, lzt_layer_objects *o,
                         lzt_move *move);

/* The micro-batch's own objects on the device. */
typedef struct lzt_batch_objects {
    uint32_t descriptor;
    uint32_t rope_table;           /* (T, R/2, 2) f32 */
    const uint32_t *keys, *values; /* generation: [N] the cache, (B, S, K*D) for each layer; else NULL */
    bool cached;                   /* DECODE: attention reads the cache */
} lzt_batch_objects;

/* Forward through layer. Makes the internals in *o and returns boundary l+1; with output false the MLP's last product
 * is left out (backward does not need it) and LZT_NO_OBJECT comes back. pass: "fwd", "re" or "bwd", for the task names.
 */
uint32_t lzt__emit_layer_forward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                 bool output, const char *pass);
/* Backward through layer from dy, the gradient of boundary l+1; returns the gradient of boundary l. Uses up o->gu. */
uint32_t lzt__emit_layer_backward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                  uint32_t dy);

/* emit_whole.c: a layer whose operators do not exist yet, as one task a pass (a part of the micro-batch at a time where
 * the plan splits it). The two functions above come here by themselves; backward then makes the internals that are not
 * kept. */
bool lzt__layer_is_whole(const lzt_model_info *model);
uint32_t lzt__emit_whole_forward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                 bool keep, const char *pass);
uint32_t lzt__emit_whole_backward(lzt_builder *b, const lzt_batch_objects *batch, uint32_t layer, lzt_layer_objects *o,
                                  uint32_t dy);

/* Shared by the layer and the head. */
void lzt__emit_rmsnorm(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t x, uint32_t weights,
                       const lzt_tensor *w, uint32_t y, uint32_t rstd, const char *name);
void lzt__emit_rmsnorm_backward(lzt_builder *b, const lzt_batch_objects *batch, int32_t layer, uint32_t dy, uint32_t x,
                                uint32_t weights, const lzt_tensor *w, uint32_t rstd, uint32_t residual, uint32_t dx,
                                uint32_t gradients, const char *name);
/* A device object of T rows of columns elements of dtype. */
uint32_t lzt__rows(lzt_builder *b, uint64_t columns, const char *name, int32_t layer);

#endif
