/* Exact match: a dataset's questions, answered by the model and judged. See lazytrain/train.h. */
#include "lazytrain/train.h"

#include "base/clock.h"
#include "base/os.h"
#include "data/answer/answer.h"
#include "lazytrain/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A row's question and the answer that it should get. */
typedef struct question {
    uint64_t line;
    uint64_t prompt_begin, prompt_count; /* in ids */
    char *expected;                      /* the answer within the row's own; NULL: the pattern finds none */
    uint64_t expected_size;
} question;

struct lzt_exam {
    const lzt_tokenizer *tokenizer;
    lzt__answer_pattern *pattern;
    uint64_t max_new;
    question *question; /* [count] */
    uint64_t count, unknown, longest;
    int32_t *ids; /* of all prompts */
    uint64_t id_count, id_room;
};

static lzt_status no_memory(lzt_error *err)
{
    return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for questions and answers");
}

/* ---- the questions ---- */

static lzt_status keep_prompt(lzt_exam *e, const lzt_question *asked, question *q, lzt_error *err)
{
    if (e->id_room - e->id_count < asked->count) {
        uint64_t room = 2 * (e->id_count + asked->count) + 1024;
        int32_t *ids = realloc(e->ids, room * sizeof *ids);
        if (!ids) return no_memory(err);
        e->ids = ids;
        e->id_room = room;
    }
    memcpy(e->ids + e->id_count, asked->ids, asked->count * sizeof *e->ids);
    q->prompt_begin = e->id_count;
    q->prompt_count = asked->count;
    e->id_count += asked->count;
    if (asked->count > e->longest) e->longest = asked->count;
    return LZT_OK;
}

static lzt_status add_question(lzt_exam *e, lzt_dataset *dataset, uint64_t row, lzt_error *err)
{
    lzt_question asked;
    lzt__answer answer;
    question *q = &e->question[e->count];
    lzt_status status = lzt_dataset_question(dataset, row, &asked, err);
    if (!status) status = keep_prompt(e, &asked, q, err);
    if (status) return status;
    q->line = lzt_dataset_line(dataset, row);
    e->count++;
    if (!lzt__answer_find(e->pattern, asked.answer, asked.answer_size, &answer)) {
        e->unknown++;
        return LZT_OK;
    }
    q->expected = malloc(answer.size + 1);
    if (!q->expected) return no_memory(err);
    memcpy(q->expected, answer.text, answer.size);
    q->expected[answer.size] = 0;
    q->expected_size = answer.size;
    return LZT_OK;
}

static lzt_status add_questions(lzt_exam *e, const lzt_exam_options *options, lzt_error *err)
{
    uint64_t rows = lzt_dataset_rows(options->dataset);
    uint64_t wanted = options->rows && options->rows < rows ? options->rows : rows;
    e->question = calloc(wanted + 1, sizeof *e->question);
    if (!e->question) return no_memory(err);
    lzt_status status = LZT_OK;
    for (uint64_t row = 0; row < rows && e->count < wanted && !status; row++) {
        uint32_t tokens;
        status = lzt_dataset_measure(options->dataset, row, &tokens, NULL, err);
        if (!status && tokens) status = add_question(e, options->dataset, row, err); /* a lazy file's bad row has 0 */
    }
    if (status || e->unknown < e->count) return status;
    lzt_fail(err, LZT_ERR_DATA, lzt_dataset_path(options->dataset),
             "answer_pattern finds an answer in none of %llu rows' own answers", (unsigned long long)e->count);
    return lzt_hint(err, "set answer_pattern to what marks the answer; it is %s",
                    options->pattern ? options->pattern : LZT__ANSWER_PATTERN);
}

lzt_status lzt_exam_create(const lzt_exam_options *options, lzt_exam **exam, lzt_error *err)
{
    *exam = NULL;
    if (options->struct_bytes != sizeof *options)
        return lzt_fail(err, LZT_ERR_USAGE, "exam", "options of another version");
    if (!options->tokenizer) {
        lzt_fail(err, LZT_ERR_USAGE, "tokenizer", "generated answers are read with a tokenizer, and there is none");
        return lzt_hint(err, "name one: tokenizer: DIR");
    }
    lzt_exam *e = calloc(1, sizeof *e);
    if (!e) return no_memory(err);
    e->tokenizer = options->tokenizer;
    e->max_new = options->max_new_tokens;
    lzt_status status = lzt__answer_pattern_open(options->pattern, &e->pattern, err);
    if (!status) status = add_questions(e, options, err);
    if (status) {
        lzt_exam_destroy(e);
        return status;
    }
    *exam = e;
    return LZT_OK;
}

void lzt_exam_destroy(lzt_exam *e)
{
    if (!e) return;
    for (uint64_t i = 0; e->question && i < e->count; i++) free(e->question[i].expected);
    lzt__answer_pattern_close(e->pattern);
    free(e->question);
    free(e->ids);
    free(e);
}

/* More sequences at once make a step longer, not much faster. */
enum { SEQUENCES_MAX = 64 };

void lzt_exam_cache(const lzt_exam *e, lzt_cache_shape *wanted)
{
    *wanted = (lzt_cache_shape){.sequences = e->count < SEQUENCES_MAX ? e->count : SEQUENCES_MAX,
                                .length = e->longest + e->max_new,
                                .prompt_tokens = e->longest};
}

uint64_t lzt_exam_unknown(const lzt_exam *e)
{
    return e->unknown;
}

/* ---- the answers ---- */

static bool is_right(const question *q, bool found, const lzt__answer *made)
{
    lzt__answer expected = {q->expected, q->expected_size};
    return found && q->expected && lzt__answer_equal(made, &expected);
}

/* One line of the answers' file, NULL without memory; the caller frees it. */
static char *answer_line(const lzt_exam *e, const question *q, const char *text, uint64_t size, bool found,
                         const lzt__answer *made, lzt_error *err)
{
    char *prompt, *line = NULL;
    uint64_t prompt_size;
    if (lzt_tokenizer_decode(e->tokenizer, e->ids + q->prompt_begin, q->prompt_count, false, &prompt, &prompt_size,
                             err))
        return NULL;
    json_t *row = json_pack("{s:I,s:o,s:o,s:o,s:o,s:b}", "row", (json_int_t)q->line, "prompt",
                            json_stringn(prompt, prompt_size), "generated", json_stringn(text, size), "extracted",
                            found ? json_stringn(made->text, made->size) : json_null(), "expected",
                            q->expected ? json_stringn(q->expected, q->expected_size) : json_null(), "right",
                            is_right(q, found, made));
    if (row) line = json_dumps(row, JSON_COMPACT);
    if (!line) no_memory(err);
    json_decref(row);
    free(prompt);
    return line;
}

static lzt_status judge(const lzt_exam *e, const lzt_sequence *s, const question *q, FILE *file,
                        lzt_exam_result *result, lzt_error *err)
{
    char *text;
    uint64_t size;
    lzt__answer made;
    lzt_status status = lzt_tokenizer_decode(e->tokenizer, s->out, s->made, true, &text, &size, err);
    if (status) return status;
    bool found = lzt__answer_find(e->pattern, text, size, &made);
    result->right += is_right(q, found, &made);
    result->unanswered += !found;
    result->cut += !s->ended;
    if (file) {
        char *line = answer_line(e, q, text, size, found, &made, err);
        status = line ? LZT_OK : LZT_ERR_NO_MEMORY;
        if (line) fprintf(file, "%s\n", line);
        free(line);
    }
    free(text);
    return status;
}

static lzt_status judge_all(const lzt_exam *e, const lzt_sequence *sequence, const char *path, lzt_exam_result *result,
                            lzt_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = path ? open_memstream(&text, &bytes) : NULL;
    lzt_status status = path && !file ? no_memory(err) : LZT_OK;
    for (uint64_t i = 0; i < e->count && !status; i++)
        status = judge(e, &sequence[i], &e->question[i], file, result, err);
    bool bad = file && ferror(file);
    if (file && fclose(file)) bad = true;
    if (!status && bad) status = no_memory(err);
    if (!status && path) status = lzt__os_write_file_atomic(lzt__os_posix(), path, text, bytes, err);
    free(text);
    return status;
}

/* The ids that may follow the question: the model has no positions for more. */
static uint64_t room(const lzt_exam *e, const question *q, const lzt_model_info *model)
{
    if (!model->max_positions) return e->max_new; /* the config names no limit */
    uint64_t left = model->max_positions > q->prompt_count ? model->max_positions - q->prompt_count : 0;
    return e->max_new < left ? e->max_new : left;
}

lzt_status lzt_exam_run(lzt_exam *e, lzt_engine *engine, const char *path, const volatile sig_atomic_t *stop,
                        lzt_exam_result *result, lzt_error *err)
{
    uint64_t begin = lzt__clock_ns();
    lzt_engine_info info;
    lzt_engine_get_info(engine, &info);
    *result = (lzt_exam_result){.answers = e->count};
    lzt_sequence *sequence = calloc(e->count + 1, sizeof *sequence);
    int32_t *out = calloc(e->count * e->max_new + 1, sizeof *out);
    lzt_status status = sequence && out ? LZT_OK : no_memory(err);
    for (uint64_t i = 0; i < e->count && !status; i++)
        sequence[i] = (lzt_sequence){.prompt = e->ids + e->question[i].prompt_begin,
                                     .prompt_count = e->question[i].prompt_count,
                                     .max_new = room(e, &e->question[i], info.model),
                                     .out = out + i * e->max_new};
    if (!status) status = lzt_generate(engine, sequence, e->count, stop, &result->generated, err);
    if (!status) status = judge_all(e, sequence, path, result, err);
    free(sequence);
    free(out);
    result->seconds = lzt__clock_seconds(lzt__clock_ns() - begin);
    return status;
}
