/* Inside a tokenizer: what the loaders fill in and the encoder reads.
 *
 * The chain, as in the reference: added tokens that match raw text; the normaliser; added tokens that match normalised
 * text; the splits; the model on each piece. Loaders only fill this struct; whether a file's components can be had is
 * decided there.
 */
#ifndef LZT_DATA_TOKENIZER_PARTS_H
#define LZT_DATA_TOKENIZER_PARTS_H

#include "data/tokenizer/bpe.h"
#include "base/jsontree.h"
#include "data/tokenizer/text_split.h"
#include "data/tokenizer/unicode.h"
#include "lazytrain/tokenizer.h"

#define LZT__STEPS_MAX 16

typedef enum lzt__model {
    LZT__MODEL_BYTES,      /* BPE over bytes */
    LZT__MODEL_CHARACTERS, /* BPE over characters, unknown ones become bytes before the merges */
    LZT__MODEL_PIECES,     /* SentencePiece BPE: unknown characters become bytes after the merges */
    LZT__MODEL_UNIGRAM     /* SentencePiece unigram: the best path by score */
} lzt__model;

typedef enum lzt__norm_kind {
    LZT__NORM_NFC,
    LZT__NORM_NFD,
    LZT__NORM_REPLACE, /* a, or what the pattern matches, by b */
    LZT__NORM_PREPEND, /* a before a text that is not empty */
    LZT__NORM_CHARSMAP /* SentencePiece's rules, spaces and all */
} lzt__norm_kind;

typedef struct lzt__norm {
    lzt__norm_kind kind;
    char *a, *b;
    uint32_t a_size, b_size;
    void *regex; /* of REPLACE: pcre2_code, or NULL */
} lzt__norm;

typedef struct lzt__added {
    uint32_t id, offset, size;         /* content lies in added_text */
    uint32_t match_offset, match_size; /* what is looked for: the content, or its normal form */
    bool special, normalized, lstrip, rstrip, single_word;
} lzt__added;

/* Finds added tokens: a bitmap of the first two bytes, then the tokens by first byte, longest first. */
typedef struct lzt__matcher {
    uint8_t first[256];
    uint8_t prefix[65536 / 8];
    uint32_t *order;     /* [count] indices of added tokens, by first byte, then longest first */
    uint32_t begin[257]; /* into order */
    uint32_t count;
} lzt__matcher;

typedef enum lzt__decode_kind {
    LZT__DECODE_BYTES,  /* the tokens' bytes one after the other */
    LZT__DECODE_PIECES, /* spellings; U+2581 is a space, <0xNN> a byte, strip leading spaces fall off */
    LZT__DECODE_WORDS   /* tokens with a space between them (a file without a decoder) */
} lzt__decode_kind;

typedef enum lzt__metaspace {
    LZT__METASPACE_NONE,
    LZT__METASPACE_NEVER,
    LZT__METASPACE_FIRST,
    LZT__METASPACE_ALWAYS
} lzt__metaspace;

/* SentencePiece's normaliser. */
typedef struct lzt__charsmap {
    uint32_t *trie; /* [trie_count] a double array */
    uint32_t trie_count;
    char *target; /* [target_size] terminated strings */
    uint32_t target_size;
    bool dummy_prefix, dummy_suffix, remove_extra, escape;
} lzt__charsmap;

struct lzt_tokenizer {
    lzt__unicode *unicode;
    lzt__vocab vocab;
    lzt__bpe bpe;
    lzt__model model;
    uint32_t byte_id[256]; /* the id of a byte on its own, or LZT__BPE_NONE */
    uint32_t unk;          /* or LZT__BPE_NONE */
    bool ignore_merges, fuse_unk, byte_fallback, prefix_space;
    lzt__vocab characters; /* PIECES: characters of pieces that are no pieces themselves; ids from character_base */
    uint32_t character_base;
    float *score;  /* [vocab.id_count] UNIGRAM */
    uint8_t *type; /* [vocab.id_count] of SentencePiece, else NULL */
    float unk_score;
    uint32_t longest_piece; /* bytes */
    lzt__charsmap charsmap;
    lzt__norm norm[LZT__STEPS_MAX];
    uint32_t norm_count;
    lzt__metaspace metaspace;
    bool metaspace_split;
    lzt__split split[LZT__STEPS_MAX];
    uint32_t split_count;
    lzt__added *added; /* [added_count] */
    uint32_t added_count, added_capacity;
    char *added_text;
    uint64_t added_text_size;
    lzt__matcher raw, normalised;
    int32_t before[8], after[8]; /* what the post-processor puts around one text */
    uint32_t before_count, after_count;
    lzt__decode_kind decode;
    uint32_t strip;                /* PIECES: spaces that fall off the start */
    bool keeps_marks, keeps_bytes; /* PIECES: U+2581, <0xNN> stay as they are spelled */
    bool drops_marks;              /* PIECES: the first token has no U+2581 */
    uint32_t size;                 /* largest id + 1 */
    uint8_t *is_added;             /* [(size + 7) / 8] bits by id */
    bool never_closes;             /* llama2.c: text is not closed with EOS */
    int32_t bos, eos, pad;
    uint64_t fingerprint[2]; /* hash of every byte that was read */
};

/* Takes a text that was read for the tokenizer into its fingerprint; the order counts. */
void lzt__tokenizer_note(lzt_tokenizer *t, const char *text, uint64_t size);

/* Whether plain text for training ends with EOS. */
bool lzt__tokenizer_closes_text(const lzt_tokenizer *t);
/* true when bytes that the template did not write (writer 0; NULL: all) spell a special token. */
bool lzt__tokenizer_spells_control(const lzt_tokenizer *t, const char *text, uint64_t size, const uint8_t *writer);

/* Loaders: fill a zeroed tokenizer. where: the file's name. text outlives the call only. */
lzt_status lzt__load_tokenizer_json(lzt_tokenizer *t, const char *text, uint64_t size, const char *where,
                                    lzt_error *err);
lzt_status lzt__load_vocab_merges(lzt_tokenizer *t, const char *vocab_path, const char *merges_path, lzt_error *err);
lzt_status lzt__load_ranks(lzt_tokenizer *t, const char *text, uint64_t size, const char *pattern, const char *where,
                           lzt_error *err);
lzt_status lzt__load_llama2c(lzt_tokenizer *t, const char *text, uint64_t size, const char *where, lzt_error *err);
lzt_status lzt__load_sentencepiece(lzt_tokenizer *t, const char *text, uint64_t size, const char *where,
                                   lzt_error *err);

/* Helpers of loaders. */
lzt_status lzt__tokenizer_split(lzt_tokenizer *t, const char *pattern, uint64_t size, lzt__pattern_syntax syntax,
                                lzt_error *err);
lzt_status lzt__tokenizer_add(lzt_tokenizer *t, const lzt__added *added, const char *content, uint32_t size,
                              lzt_error *err);
/* byte_id from the one-byte entries of the vocabulary. */
void lzt__tokenizer_bytes(lzt_tokenizer *t);
/* Merges of a vocabulary with scores: every cut of a piece into two pieces (or characters), the best score first. */
lzt_status lzt__tokenizer_score_merges(lzt_tokenizer *t, lzt_error *err);
lzt_status lzt__matcher_make(const lzt_tokenizer *t, bool normalised, lzt__matcher *m, lzt_error *err);
/* The added token that begins at text[at], longest first, on bytes that writer allows; NULL: none. */
const lzt__added *lzt__matcher_at(const lzt_tokenizer *t, const lzt__matcher *m, const char *text, uint64_t size,
                                  uint64_t at, const uint8_t *writer, const uint32_t *origin);
/* GPT-2's printable spelling of bytes: fills the code point of each byte. */
void lzt__byte_spelling(uint32_t code[256]);

/* The chain of normalisers on *from, with *to as the other buffer; the result is *from. */
lzt_status lzt__normalise(const lzt_tokenizer *t, lzt__split_scratch *scratch, lzt__traced **from, lzt__traced **to,
                          lzt_error *err);
/* out = in with every a (not empty) replaced by b. */
lzt_status lzt__traced_replace(const lzt__traced *in, const char *a, uint32_t a_size, const char *b, uint32_t b_size,
                               lzt__traced *out, lzt_error *err);
lzt_status lzt__traced_prepend(lzt__traced *text, const char *a, uint32_t a_size, lzt_error *err);
/* SentencePiece's normaliser: in and out as lzt__unicode_normalise. */
lzt_status lzt__charsmap_apply(const lzt_tokenizer *t, const lzt__traced *in, lzt__traced *out, lzt_error *err);
/* The best path through a text; symbols into scratch->symbol. */
lzt_status lzt__unigram_best(const lzt_tokenizer *t, const char *text, uint32_t size, lzt__bpe_scratch *scratch,
                             uint32_t *count, lzt_error *err);

#endif
