/* Tokenizers: text to token ids and back, equal to the reference implementations to the last id.
 *
 *     lzt_tokenizer_open("model-directory", NULL, &tokenizer, &err);
 *     lzt_encoder_create(tokenizer, &encoder, &err);
 *     lzt_encoder_encode(encoder, text, size, NULL, LZT_ENCODE_ADDED, &encoding, &err);
 *     for (i = 0; i < encoding.count; i++) use(encoding.ids[i]);
 *
 * Read: tokenizer.json (BPE, byte level or with byte fallback; as the `tokenizers` package 0.23.3 has it), GPT-2's
 * vocab.json + merges.txt, tiktoken rank files with a pattern, SentencePiece tokenizer.model (BPE and unigram),
 * llama2.c's tok*.bin. A component that is not supported is an error naming it, never an approximation.
 *
 * Threads: a tokenizer is read-only and may be shared; an encoder or decoder belongs to one thread at a time.
 * Ownership: the tokenizer must outlive its encoders and decoders; an encoding is borrowed until the encoder's next
 * call. Errors are LZT_ERR_DATA unless said otherwise.
 */
#ifndef LAZYTRAIN_TOKENIZER_H
#define LAZYTRAIN_TOKENIZER_H

#include "lazytrain/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lzt_tokenizer lzt_tokenizer;
typedef struct lzt_encoder lzt_encoder;
typedef struct lzt_decoder lzt_decoder;

typedef struct lzt_tokenizer_options {
    uint64_t struct_bytes;
    const char *pattern; /* the split pattern of a tiktoken rank file, Perl syntax; NULL for all other kinds */
} lzt_tokenizer_options;

#define LZT_TOKENIZER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(lzt_tokenizer_options), NULL                                                                            \
    }

/* path: a directory (tokenizer.json, else tokenizer.model, vocab.json + merges.txt, tok512.bin) or one of those files.
 * options: NULL for defaults. BOS, EOS and PAD come from tokenizer_config.json beside the file, where there is one.
 * Errors also: LZT_ERR_STORAGE, LZT_ERR_NO_MEMORY. blocks: reads the file */
LZT_EXPORT lzt_status lzt_tokenizer_open(const char *path, const lzt_tokenizer_options *options,
                                         lzt_tokenizer **tokenizer, lzt_error *err);
/* The directory holds the files of some tokenizer (which may still be one that open refuses). */
LZT_EXPORT bool lzt_tokenizer_present(const char *directory);
LZT_EXPORT void lzt_tokenizer_close(lzt_tokenizer *tokenizer); /* NULL is allowed */
/* The largest id plus one. */
LZT_EXPORT uint32_t lzt_tokenizer_size(const lzt_tokenizer *tokenizer);
/* The id, or -1 where the tokenizer names none. */
LZT_EXPORT int32_t lzt_tokenizer_bos(const lzt_tokenizer *tokenizer);
LZT_EXPORT int32_t lzt_tokenizer_eos(const lzt_tokenizer *tokenizer);
LZT_EXPORT int32_t lzt_tokenizer_pad(const lzt_tokenizer *tokenizer);
/* The id of an added token by its text, or of a vocabulary entry by its spelling in the file; -1 when there is none. */
LZT_EXPORT int32_t lzt_tokenizer_id(const lzt_tokenizer *tokenizer, const char *text, uint64_t size);
/* The bytes that the id stands for (not terminated; borrowed), NULL for an id that names nothing. */
LZT_EXPORT const char *lzt_tokenizer_bytes(const lzt_tokenizer *tokenizer, int32_t id, uint64_t *size);
/* true for a control token, which decoding may leave out. */
LZT_EXPORT bool lzt_tokenizer_is_special(const lzt_tokenizer *tokenizer, int32_t id);
/* true for a token that is matched as a whole before text is split, special or not. */
LZT_EXPORT bool lzt_tokenizer_is_added(const lzt_tokenizer *tokenizer, int32_t id);

typedef enum lzt_encode_flag {
    LZT_ENCODE_ADDED = 1,  /* added tokens are matched in the text */
    LZT_ENCODE_SPECIAL = 2 /* the ids that the tokenizer puts around a text (BOS, EOS) are put there */
} lzt_encode_flag;

typedef struct lzt_encoding {
    const int32_t *ids; /* [count] */
    const uint32_t
        *begin; /* [count] the byte of the text where the token begins; the text's size for what is put behind */
    uint64_t count;
} lzt_encoding;

LZT_EXPORT lzt_status lzt_encoder_create(const lzt_tokenizer *tokenizer, lzt_encoder **encoder, lzt_error *err);
LZT_EXPORT void lzt_encoder_destroy(lzt_encoder *encoder); /* NULL is allowed */
/* text: valid UTF-8 of size bytes, below 4 GiB, NULs allowed. writer: NULL, or [size] bytes that are not 0 where added
 * tokens may match; a match lies wholly on such bytes, the rest of the text is split as if there were no borders.
 * flags: of lzt_encode_flag. */
LZT_EXPORT lzt_status lzt_encoder_encode(lzt_encoder *encoder, const char *text, uint64_t size, const uint8_t *writer,
                                         uint32_t flags, lzt_encoding *encoding, lzt_error *err);
/* The same of a JSON string (with its quotes) whose text is to be encoded; begins are those of the unquoted text.
 * Unpaired surrogates and bytes that are not UTF-8 become U+FFFD. */
LZT_EXPORT lzt_status lzt_encoder_encode_json(lzt_encoder *encoder, const char *json, uint64_t size, uint32_t flags,
                                              lzt_encoding *encoding, lzt_error *err);

/* Decoding a stream: bytes of an unfinished character are held back until the ids that complete it. skip_special:
 * control tokens become nothing. */
LZT_EXPORT lzt_status lzt_decoder_create(const lzt_tokenizer *tokenizer, bool skip_special, lzt_decoder **decoder,
                                         lzt_error *err);
LZT_EXPORT void lzt_decoder_destroy(lzt_decoder *decoder); /* NULL is allowed */
/* The text that became certain with id (may be empty; not terminated; borrowed until the next call). What cannot become
 * valid UTF-8 is U+FFFD. An id that names nothing adds nothing. Errors: LZT_ERR_NO_MEMORY. */
LZT_EXPORT lzt_status lzt_decoder_push(lzt_decoder *decoder, int32_t id, const char **text, uint64_t *size,
                                       lzt_error *err);
/* What is still held back, as U+FFFD; the decoder is then as new. */
LZT_EXPORT lzt_status lzt_decoder_finish(lzt_decoder *decoder, const char **text, uint64_t *size, lzt_error *err);
/* All at once; *text is terminated, the caller frees it. size may be NULL. */
LZT_EXPORT lzt_status lzt_tokenizer_decode(const lzt_tokenizer *tokenizer, const int32_t *ids, uint64_t count,
                                           bool skip_special, char **text, uint64_t *size, lzt_error *err);

#ifdef __cplusplus
}
#endif
#endif
