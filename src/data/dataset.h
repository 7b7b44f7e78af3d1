/* Inside a dataset: how a span of the file becomes ids and labels. Shared by the producers, one per family of formats.
 *
 * A producer appends to the dataset's row buffer and says nothing of truncation or dropping; dataset.c does that for
 * all of them alike.
 */
#ifndef LZT_DATA_DATASET_H
#define LZT_DATA_DATASET_H

#include "data/jsontree.h"
#include "data/rowfile.h"
#include "lazytrain/data.h"
#include "lazytrain/template.h"
#include "lazytrain/tokenizer.h"

typedef struct lzt__rowbuf {
    int32_t *ids, *labels; /* [count] */
    uint64_t count, capacity;
    bool control_text; /* content spelled a control token */
    bool double_bos;   /* begins with two BOS */
} lzt__rowbuf;

/* Makes room for more tokens. */
lzt_status lzt__rowbuf_reserve(lzt__rowbuf *buf, uint64_t more, lzt_error *err);

/* input_ids and, if there, labels of a row. where: "file:line". */
lzt_status lzt__row_pretokenised(const lzt__json *row, uint64_t vocabulary, const char *where, lzt__rowbuf *buf,
                                 lzt_error *err);

/* What rows of text are made with. */
typedef struct lzt__rowmaker {
    const lzt_tokenizer *tokenizer;
    lzt_encoder *encoder;
    lzt_template *chat;                       /* may be NULL */
    const char *query_field, *response_field; /* both or none */
    lzt_loss_on loss_on;
    bool question; /* make what the row asks, with the generation prompt, and keep its answer apart */
    char *answer;  /* [answer_size] of the last question; NUL behind it */
    uint64_t answer_size;
    uint8_t *wanted, *trained; /* scratch, by message and by token */
    uint64_t wanted_capacity, trained_capacity;
    lzt__json_doc doc; /* JSON inside a JSON string */
} lzt__rowmaker;

void lzt__rowmaker_fini(lzt__rowmaker *maker);
/* A row of text in any format but the pre-tokenised one: text, messages, conversations, prompt and completion, question
 * and answer, instruction and output. */
lzt_status lzt__row_text(lzt__rowmaker *maker, const lzt__json *row, const char *where, lzt__rowbuf *buf,
                         lzt_error *err);

/* Turns a pre-tokenised row into its question: what stands before the last trained span, which is decoded. */
lzt_status lzt__row_ask_pretokenised(lzt__rowmaker *maker, const char *where, lzt__rowbuf *buf, lzt_error *err);

/* A record of a CSV file as the JSON object it means: names from the header, all values strings. */
lzt_status lzt__csv_to_json(const char *header, uint64_t header_size, const char *record, uint64_t record_size,
                            const char *where, char **json, uint64_t *json_size, uint64_t *json_capacity,
                            lzt_error *err);

#endif
