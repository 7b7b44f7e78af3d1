/* Text tables: see lazytrain/report.h. Cells are kept until print knows each column's width. */
#include "lazytrain/report.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct lzt_table {
    const lzt_table_column *column;
    uint32_t column_count;
    char **cell; /* [cell_count] row by row */
    uint64_t cell_count, capacity;
    bool failed; /* an allocation did */
};

lzt_table *lzt_table_create(const lzt_table_column *columns, uint32_t column_count)
{
    assert(column_count > 0);
    lzt_table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    table->column = columns;
    table->column_count = column_count;
    return table;
}

static bool grow(lzt_table *table)
{
    if (table->cell_count < table->capacity) return true;
    uint64_t capacity = table->capacity ? table->capacity * 2 : 64;
    char **grown = realloc(table->cell, capacity * sizeof *grown);
    if (!grown) return false;
    table->cell = grown;
    table->capacity = capacity;
    return true;
}

void lzt_table_cell(lzt_table *table, const char *fmt, ...)
{
    if (!table || table->failed) return;
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int length = vasprintf(&text, fmt, args);
    va_end(args);
    if (length < 0 || !grow(table)) {
        if (length >= 0) free(text);
        table->failed = true;
        return;
    }
    table->cell[table->cell_count++] = text;
}

/* Columns on the screen: code points, which is right for what these tables hold. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static int column_width(const lzt_table *table, uint32_t column)
{
    int width = width_of(table->column[column].title);
    for (uint64_t i = column; i < table->cell_count; i += table->column_count) {
        int cell = width_of(table->cell[i]);
        if (cell > width) width = cell;
    }
    return width;
}

static void print_cell(const lzt_table *table, uint32_t column, const char *text, int width, FILE *stream)
{
    int padding = width - width_of(text);
    bool is_last = column + 1 == table->column_count;
    if (column) fputs("  ", stream);
    if (table->column[column].is_right) fprintf(stream, "%*s", padding, "");
    fputs(text, stream);
    if (!table->column[column].is_right && !is_last) fprintf(stream, "%*s", padding, "");
}

lzt_status lzt_table_print(const lzt_table *table, FILE *stream, lzt_error *err)
{
    int *width = table && !table->failed ? malloc(table->column_count * sizeof *width) : NULL;
    if (!width) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a table");
    for (uint32_t c = 0; c < table->column_count; c++) width[c] = column_width(table, c);
    for (uint32_t c = 0; c < table->column_count; c++) print_cell(table, c, table->column[c].title, width[c], stream);
    fputc('\n', stream);
    for (uint64_t i = 0; i < table->cell_count; i++) {
        uint32_t c = (uint32_t)(i % table->column_count);
        print_cell(table, c, table->cell[i], width[c], stream);
        if (c + 1 == table->column_count || i + 1 == table->cell_count) fputc('\n', stream);
    }
    free(width);
    return ferror(stream) ? lzt_fail(err, LZT_ERR_STORAGE, NULL, "cannot write a table") : LZT_OK;
}

void lzt_table_destroy(lzt_table *table)
{
    if (!table) return;
    for (uint64_t i = 0; i < table->cell_count; i++) free(table->cell[i]);
    free(table->cell);
    free(table);
}
