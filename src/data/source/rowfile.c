/* Maps a file and finds its rows: see rowfile.h. */
#include "data/source/rowfile.h"
#include "data/source/unpack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static lzt_status map(lzt__rowfile *f, int fd, const char *path, lzt_error *err)
{
    struct stat st;
    if (fstat(fd, &st)) return lzt_fail_os(err, LZT_ERR_STORAGE, errno, path, "cannot read the file");
    if (S_ISDIR(st.st_mode)) {
        lzt_fail(err, LZT_ERR_DATA, path, "a directory, not a file of rows");
        return lzt_hint(err, "name its files, separated by commas");
    }
    if (!S_ISREG(st.st_mode)) return lzt_fail(err, LZT_ERR_DATA, path, "not a regular file");
    f->text = "";
    f->size = (uint64_t)st.st_size;
    if (!f->size) return LZT_OK;
    void *p = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return lzt_fail_os(err, LZT_ERR_STORAGE, errno, path, "cannot map the file");
    f->mapping = p;
    f->mapping_size = f->size;
    f->text = p;
    return LZT_OK;
}

/* Into the hash of the content, so that neighbours cannot run into one another. */
static void hash_bytes(lzt__rowfile *f, uint64_t begin, uint64_t size)
{
    XXH3_128bits_update(f->hash, &size, sizeof size);
    XXH3_128bits_update(f->hash, f->text + begin, size);
}

static lzt_status row_add(lzt__rowfile *f, uint64_t begin, uint64_t end, uint64_t line, const char *path,
                          lzt_error *err)
{
    if (end - begin > UINT32_MAX)
        return lzt_fail(err, LZT_ERR_DATA, path, "the row at line %llu is above 4 GiB", (unsigned long long)line);
    if (f->row_count == f->row_capacity) {
        uint64_t capacity = f->row_capacity ? f->row_capacity + f->row_capacity / 2 : 1024;
        lzt__rowspan *row = realloc(f->row, capacity * sizeof *row);
        if (!row) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the index of rows");
        f->row = row;
        f->row_capacity = capacity;
    }
    lzt__rowspan *row = &f->row[f->row_count++];
    *row = (lzt__rowspan){begin, (uint32_t)(end - begin), line < UINT32_MAX ? (uint32_t)line : UINT32_MAX};
    hash_bytes(f, begin, row->size);
    return LZT_OK;
}

static bool is_blank(const char *text, uint64_t begin, uint64_t end)
{
    while (begin < end && (text[begin] == ' ' || text[begin] == '\t' || text[begin] == '\r')) begin++;
    return begin == end;
}

static lzt_status index_lines(lzt__rowfile *f, uint64_t at, uint64_t max_rows, const char *path, lzt_error *err)
{
    for (uint64_t line = 1; at < f->size; line++) {
        const char *newline = memchr(f->text + at, '\n', f->size - at);
        uint64_t end = newline ? (uint64_t)(newline - f->text) : f->size;
        if (is_blank(f->text, at, end)) {
            f->blank_lines++;
        } else {
            lzt_status s = row_add(f, at, end, line, path, err);
            if (s || f->row_count == max_rows) return s;
        }
        at = end + 1;
    }
    return LZT_OK;
}

/* The end of the JSON value at `at`, by brackets and quotes alone; whether it is valid is for the parser. */
static uint64_t value_end(const lzt__rowfile *f, uint64_t at, uint64_t *line)
{
    int64_t depth = 0;
    for (; at < f->size; at++) {
        char c = f->text[at];
        if (c == '"') {
            for (at++; at < f->size && f->text[at] != '"'; at++) {
                if (f->text[at] == '\\') at++;
                if (at < f->size && f->text[at] == '\n') ++*line;
            }
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (--depth < 0) return at;
        } else if (c == ',' && !depth) {
            return at;
        } else if (c == '\n') {
            ++*line;
        }
    }
    return f->size;
}

static lzt_status index_array(lzt__rowfile *f, uint64_t at, uint64_t line, uint64_t max_rows, const char *path,
                              lzt_error *err)
{
    for (at++;;) { /* behind the opening bracket, or a comma */
        while (at < f->size && strchr(" \t\r\n", f->text[at]) && f->text[at]) line += f->text[at++] == '\n';
        uint64_t first = line, end = value_end(f, at, &line);
        if (end >= f->size) return lzt_fail(err, LZT_ERR_DATA, path, "the JSON array is not closed");
        bool blank = end == at;
        if (blank && (f->text[end] == ',' || f->row_count))
            return lzt_fail(err, LZT_ERR_DATA, path, "not valid JSON: an array element is missing at line %llu",
                            (unsigned long long)line);
        lzt_status s = blank ? LZT_OK : row_add(f, at, end, first, path, err);
        if (s || (f->row_count && f->row_count == max_rows)) return s;
        if (f->text[end] == ']') {
            for (at = end + 1; at < f->size; at++)
                if (!strchr(" \t\r\n", f->text[at]) || !f->text[at])
                    return lzt_fail(err, LZT_ERR_DATA, path, "text after the JSON array");
            return LZT_OK;
        }
        if (f->text[end] != ',') return lzt_fail(err, LZT_ERR_DATA, path, "not valid JSON: brackets do not match");
        at = end + 1;
    }
}

/* The end of the CSV record at `at`: a newline that is not inside quotes. A quote opens where a field begins; elsewhere
 * in a field without quotes it is a character. *open: the end of the file came inside quotes. */
static uint64_t record_end(const lzt__rowfile *f, uint64_t at, uint64_t *line, bool *open)
{
    bool begins = true;
    for (*open = false; at < f->size && (*open || f->text[at] != '\n'); at++) {
        char c = f->text[at];
        if (*open) {
            *line += c == '\n';
            if (c == '"' && at + 1 < f->size && f->text[at + 1] == '"')
                at++;
            else
                *open = c != '"';
        } else {
            *open = begins && c == '"';
        }
        begins = c == ',' && !*open;
    }
    return at;
}

/* CSV records; the first one is the header. */
static lzt_status index_csv(lzt__rowfile *f, uint64_t at, uint64_t max_rows, const char *path, lzt_error *err)
{
    uint64_t line = 1;
    bool headed = false;
    while (at < f->size) {
        uint64_t begin = at, first = line;
        bool open;
        at = record_end(f, at, &line, &open);
        if (open)
            return lzt_fail(err, LZT_ERR_DATA, path, "the record at line %llu has a quote without its end",
                            (unsigned long long)first);
        lzt_status s = LZT_OK;
        if (is_blank(f->text, begin, at))
            f->blank_lines++;
        else if (!headed && at - begin > UINT32_MAX)
            s = lzt_fail(err, LZT_ERR_DATA, path, "the header is above 4 GiB");
        else if (headed)
            s = row_add(f, begin, at, first, path, err);
        else
            f->header = (lzt__rowspan){begin, (uint32_t)(at - begin), (uint32_t)first};
        if (!headed && f->header.size) hash_bytes(f, begin, f->header.size);
        headed = headed || f->header.size;
        if (s || (f->row_count && f->row_count == max_rows)) return s;
        at++;
        line++;
    }
    return LZT_OK;
}

static lzt_status refuse_parquet(const char *path, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_DATA, path, "Parquet files are not read");
    return lzt_hint(err,
                    "convert it once: python3 -c \"import pandas,sys; pandas.read_parquet(sys.argv[1])"
                    ".to_json(sys.argv[2],orient='records',lines=True)\" '%.200s' rows.jsonl",
                    path);
}

/* Kinds of files that are known by how they begin, or are called, and not read. */
static lzt_status refuse_foreign(const lzt__rowfile *f, const char *path, lzt_error *err)
{
    bool utf16 = f->size >= 2 && (!memcmp(f->text, "\xff\xfe", 2) || !memcmp(f->text, "\xfe\xff", 2));
    bool parquet = f->size >= 4 && !memcmp(f->text, "PAR1", 4);
    if (parquet || lzt__name_ends_with(path, ".parquet")) return refuse_parquet(path, err);
    if (utf16) {
        lzt_fail(err, LZT_ERR_DATA, path, "the file is in UTF-16");
        return lzt_hint(err, "convert it: iconv -f UTF-16 -t UTF-8 '%.200s' > utf8.jsonl", path);
    }
    if (lzt__name_ends_with(path, ".arrow") && !lzt__arrow_begins(f->text, f->size))
        return lzt_fail(err, LZT_ERR_DATA, path,
                        "not an Arrow IPC file: neither a stream's mark nor ARROW1 at its start");
    return LZT_OK;
}

static lzt_status open_arrow(lzt__rowfile *f, uint64_t max_rows, const char *path, lzt_error *err)
{
    f->kind = LZT__ROWFILE_ARROW;
    lzt_status s = lzt__arrow_open(f->text, f->size, max_rows, path, &f->arrow, err);
    if (s) return s;
    f->row_count = lzt__arrow_rows(f->arrow);
    hash_bytes(f, 0, lzt__arrow_bytes(f->arrow));
    return s;
}

static lzt_status cut(lzt__rowfile *f, uint64_t max_rows, const char *path, lzt_error *err)
{
    uint64_t at = f->size >= 3 && !memcmp(f->text, "\xef\xbb\xbf", 3) ? 3 : 0, begin = at, line = 1;
    lzt_status s = refuse_foreign(f, path, err);
    if (s) return s;
    if (lzt__arrow_begins(f->text, f->size)) return open_arrow(f, max_rows, path, err);
    if (lzt__name_ends_with(path, ".csv") || lzt__name_ends_with(path, ".csv.gz") ||
        lzt__name_ends_with(path, ".csv.zst")) {
        f->kind = LZT__ROWFILE_CSV;
        return index_csv(f, begin, max_rows, path, err);
    }
    while (at < f->size && strchr(" \t\r\n", f->text[at]) && f->text[at]) line += f->text[at++] == '\n';
    if (at < f->size && f->text[at] == '[') {
        f->kind = LZT__ROWFILE_ARRAY;
        return index_array(f, at, line, max_rows, path, err);
    }
    return index_lines(f, begin, max_rows, path, err);
}

static lzt_status begin_hash(lzt__rowfile *f, const char *path, lzt_error *err)
{
    f->hash = XXH3_createState();
    if (!f->hash) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for a hash");
    XXH3_128bits_reset(f->hash);
    return LZT_OK;
}

static void end_hash(lzt__rowfile *f)
{
    XXH128_hash_t content = XXH3_128bits_digest(f->hash);
    f->content[0] = content.low64;
    f->content[1] = content.high64;
    XXH3_freeState(f->hash);
    f->hash = NULL;
}

lzt_status lzt__rowfile_open(const char *path, uint64_t max_rows, lzt__rowfile *file, lzt_error *err)
{
    *file = (lzt__rowfile){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO without a writer would wait for ever */
    if (fd < 0) return lzt_fail_os(err, LZT_ERR_DATA, errno, path, "cannot open the dataset");
    lzt_status s = LZT_OK;
    if (lzt__unpack_is_packed(path)) {
        int unpacked;
        s = lzt__unpack(path, fd, &unpacked, err);
        close(fd);
        if (s) return s;
        fd = unpacked;
    }
    s = map(file, fd, path, err);
    close(fd);
    if (!s) s = begin_hash(file, path, err);
    if (!s) s = cut(file, max_rows, path, err);
    if (s)
        lzt__rowfile_close(file);
    else
        end_hash(file);
    return s;
}

uint64_t lzt__rowfile_line(const lzt__rowfile *file, uint64_t row)
{
    assert(row < file->row_count);
    return file->arrow ? row + 1 : file->row[row].line;
}

lzt_status lzt__rowfile_json(const lzt__rowfile *f, uint64_t row, const char *where, lzt__text *scratch,
                             const char **text, uint64_t *size, lzt_error *err)
{
    assert(row < f->row_count);
    if (f->kind == LZT__ROWFILE_JSONL || f->kind == LZT__ROWFILE_ARRAY) {
        *text = f->text + f->row[row].offset;
        *size = f->row[row].size;
        return LZT_OK;
    }
    lzt_status s;
    scratch->bytes = 0;
    if (f->kind == LZT__ROWFILE_ARROW)
        s = lzt__arrow_row(f->arrow, row, where, scratch, err);
    else
        s = lzt__csv_to_json(f->text + f->header.offset, f->header.size, f->text + f->row[row].offset, f->row[row].size,
                             where, scratch, err);
    *text = scratch->at;
    *size = scratch->bytes;
    return s;
}

void lzt__rowfile_close(lzt__rowfile *file)
{
    lzt__arrow_close(file->arrow);
    XXH3_freeState(file->hash);
    free(file->row);
    if (file->mapping) munmap(file->mapping, file->mapping_size);
    *file = (lzt__rowfile){0};
}
