/* Inside a chat template: what rows of a dataset need beyond lazytrain/template.h. */
#ifndef LZT_DATA_CHAT_H
#define LZT_DATA_CHAT_H

#include "data/template/jinja_eval.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

/* The arena in which the next conversation is to be made; everything in it goes away. */
lzt__arena *lzt__chat_begin(lzt_template *chat);
/* Renders messages (a list of dicts) with tools (NULL: none). */
lzt_status lzt__chat_render(lzt_template *chat, const lzt__value *messages, const lzt__value *tools, bool prompt,
                            lzt_rendered *rendered, lzt_error *err);
/* Errors: LZT_ERR_DATA where the rendering, the last one, lacks a tool's name or a call's: a template that does not
 * know of tools leaves them out without a word, and a turn that calls one is empty. */
lzt_status lzt__chat_check_calls(const lzt_template *chat, const lzt__value *messages, const lzt__value *tools,
                                 lzt_error *err);
/* What a template takes for a message's content: it writes a text, goes through a list of {type, text}, or does both.
 */
typedef enum lzt__content { LZT__CONTENT_TEXT, LZT__CONTENT_PARTS, LZT__CONTENT_EITHER } lzt__content;
lzt__content lzt__chat_content(const lzt_template *chat);
/* How much the tokens of the rendered text count: trained[i] is the weight of token i, that of the message in whose
 * turn it begins; 0: no loss. wanted: [message_count] weights of the messages, 0 for those that are not trained. all:
 * whole turns are trained, headers included, and what belongs to no message; else what the assistant says in them. Once
 * a rendering. messages: those that were rendered. Errors: LZT_ERR_DATA where a weight has no place in the text. */
lzt_status lzt__chat_trained(lzt_template *chat, const lzt_encoding *tokens, const lzt__value *messages,
                             const float *wanted, bool all, float *trained, lzt_error *err);
bool lzt__chat_is_assistant(const lzt__value *message);
/* true when the template marks what is trained with {% generation %}. */
bool lzt__chat_has_generation(const lzt_template *chat);
const char *lzt__chat_where(const lzt_template *chat);
/* Hash of all that a rendering depends on beside the conversation: the template's text, tokenizer_config.json, and for
 * a template that asks for the time the date that it is told. */
void lzt__chat_fingerprint(const lzt_template *chat, uint64_t fingerprint[2]);

#endif
