/* Chat templates: conversations to text, with a mark on every byte.
 *
 *     lzt_template_open(NULL, "model-directory", &chat, &err);          the model's own template
 *     lzt_template_open("qwen3", "model-directory", &chat, &err);       a built-in one, made for training
 *     lzt_template_render(chat, json, size, LZT_RENDER_PROMPT, &text, &err);
 *
 * Templates are Jinja 2 as transformers 5.24 configures it; what the engine does not know is an error with its line
 * when the template is opened, never a fallback. Special tokens (bos_token, eos_token, ...) come from
 * tokenizer_config.json.
 *
 * Trained is what {% generation %} encloses; in templates without it, of each assistant turn what follows the
 * generation prompt, through what the template closes the turn with, white space aside. A message's `train`, `weight`
 * or `loss_weight` overrides whether it is trained, and says how much it counts (docs/formats/data.md).
 *
 * Threads: one call at a time per template. Ownership: a rendered text is borrowed until the next rendering.
 * Errors are LZT_ERR_DATA unless said otherwise.
 */
#ifndef LAZYTRAIN_TEMPLATE_H
#define LAZYTRAIN_TEMPLATE_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_template lzt_template;

/* name: NULL, "" or "auto" for the model's own (chat_template.jinja, else tokenizer_config.json), the name of a
 * built-in one (lzt_template_builtin), or the path of a Jinja file. model: a model directory or a file in it; NULL: no
 * special tokens. Errors also: LZT_ERR_USAGE (no such template), LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_template_open(const char *name, const char *model, lzt_template **chat, lzt_error *err);
LZT_EXPORT void lzt_template_close(lzt_template *chat); /* NULL is allowed */
/* What strftime_now tells, in seconds since 1970: when the template was opened, or what was set. A rendering must not
 * depend on when it is made. */
LZT_EXPORT void lzt_template_set_time(lzt_template *chat, int64_t seconds);
/* Whether the template asks what time it is, and which it is told. */
LZT_EXPORT bool lzt_template_asks_time(const lzt_template *chat, int64_t *seconds);
/* Names of the built-in templates by index; NULL behind the last. */
LZT_EXPORT const char *lzt_template_builtin(uint32_t index);

typedef enum lzt_render_flag {
    LZT_RENDER_PROMPT = 1 /* add the generation prompt */
} lzt_render_flag;

typedef struct lzt_rendered {
    const char *text; /* UTF-8, not terminated */
    uint64_t size;
    const uint8_t *writer;  /* [size] not 0: the template wrote the byte, so that control tokens may match there */
    const uint8_t *trained; /* [size] not 0: the assistant's, as said above */
    const float *weight;    /* [size] of the message whose trained byte it is; 0 elsewhere */
} lzt_rendered;

/* conversation: JSON, a list of messages or {"messages": [...], "tools": [...], any other variables}. flags: of
 * lzt_render_flag. The template's own refusals are errors with its words. */
LZT_EXPORT lzt_status lzt_template_render(lzt_template *chat, const char *conversation, uint64_t size, uint32_t flags,
                                          lzt_rendered *rendered, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
