/* Splitting a text into pieces: the patterns of the tokenizer files.
 *
 * The patterns that nearly all models use have splitters written by hand, chosen by the pattern's exact text; every
 * other one goes through PCRE2, with its Unicode classes spelled out from our tables so that they are the reference's.
 *
 * Threads: a stage is read-only once made; scratch belongs to its caller.
 */
#ifndef LZT_DATA_TEXT_SPLIT_H
#define LZT_DATA_TEXT_SPLIT_H

#include "data/tokenizer/unicode.h"

typedef struct lzt__piece {
    uint32_t begin, end; /* bytes of the text */
} lzt__piece;

typedef struct lzt__pieces {
    lzt__piece *at; /* [count] */
    uint64_t count, capacity;
} lzt__pieces;

typedef enum lzt__split_kind {
    LZT__SPLIT_GPT2,     /* contractions, letters, numbers, the rest, each with a space before it */
    LZT__SPLIT_WORDS,    /* the Llama-3 and Qwen family */
    LZT__SPLIT_DEEPSEEK, /* DeepSeek-V3's third pattern */
    LZT__SPLIT_NUMBERS,  /* runs of at most `digits` numbers */
    LZT__SPLIT_KANA_HAN, /* DeepSeek-V3's second pattern */
    LZT__SPLIT_DIGITS,   /* the Digits pre-tokenizer; digits 1: each alone, else runs */
    LZT__SPLIT_LITERAL,  /* a literal text */
    LZT__SPLIT_REGEX     /* any pattern */
} lzt__split_kind;

typedef enum lzt__split_behavior {
    LZT__SPLIT_ISOLATED,
    LZT__SPLIT_REMOVED,
    LZT__SPLIT_CONTIGUOUS,
    LZT__SPLIT_MERGED_WITH_PREVIOUS,
    LZT__SPLIT_MERGED_WITH_NEXT
} lzt__split_behavior;

/* Whose spelling a pattern is in: of repeats like {1,3}+, of ^ and $. */
typedef enum lzt__pattern_syntax { LZT__PATTERN_ONIGURUMA, LZT__PATTERN_PERL } lzt__pattern_syntax;

typedef struct lzt__split {
    lzt__split_kind kind;
    lzt__split_behavior behavior; /* of LITERAL and REGEX */
    bool invert;
    uint8_t letters; /* WORDS: LZT__CHAR_LETTER, or with LZT__CHAR_MARK */
    uint32_t digits; /* longest run of numbers; 0: any */
    char *literal;
    uint32_t literal_size;
    void *regex; /* pcre2_code */
} lzt__split;

/* Makes a stage from a pattern (not terminated). Errors: LZT_ERR_DATA naming the construct that is not supported. */
lzt_status lzt__split_make(const lzt__unicode *u, const char *pattern, uint64_t size, lzt__pattern_syntax syntax,
                           lzt__split *split, lzt_error *err);
void lzt__split_free(lzt__split *split);

typedef struct lzt__split_scratch {
    void *match_data; /* pcre2_match_data, made on demand */
    lzt__pieces matches;
} lzt__split_scratch;

void lzt__split_scratch_free(lzt__split_scratch *scratch);

lzt_status lzt__pieces_reserve(lzt__pieces *pieces, uint64_t more, lzt_error *err);
/* Appends the pieces of text[piece.begin .. piece.end) to out; empty ones are left out. */
lzt_status lzt__split_run(const lzt__split *split, const lzt__unicode *u, const char *text, lzt__piece piece,
                          lzt__split_scratch *scratch, lzt__pieces *out, lzt_error *err);

/* Appends the matches in text[piece.begin .. piece.end) to scratch->matches, as the reference's engine finds them:
 * empty ones too, but not right behind another match. */
lzt_status lzt__regex_matches(void *regex, const char *text, lzt__piece piece, lzt__split_scratch *scratch,
                              lzt_error *err);
/* Compiles a pattern for PCRE2; *code is to be freed with lzt__regex_free. */
void lzt__regex_free(void *code);                /* NULL is allowed */
bool lzt__regex_matches_empty(const void *code); /* whether it may match the empty text */
lzt_status lzt__regex_compile(const char *pattern, uint64_t size, lzt__pattern_syntax syntax, void **code,
                              lzt_error *err);

#endif
