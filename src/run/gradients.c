/* The gradients of a step as one safetensors file: F32, Hugging Face's names, in the order of the tensor table. */
#include "run/checkpoint.h"

#include "base/os.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The 8-byte length and the header, padded to 4096 bytes with spaces; the caller frees *text. */
static lzt_status make_header(const lzt_model_info *m, char **text, uint64_t *bytes, lzt_error *err)
{
    uint64_t at = 0, room = 64;
    for (uint32_t i = 0; i < m->tensor_count; i++) room += strlen(m->tensor[i].name) + 192;
    room = (room + 4095) / 4096 * 4096;
    char *out = malloc(room + 1);
    if (!out) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a safetensors header");
    uint64_t used = 8;
    used += (uint64_t)snprintf(out + used, room - used, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const lzt_tensor *t = &m->tensor[i];
        used += (uint64_t)snprintf(out + used, room - used, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", t->name);
        for (uint32_t d = 0; d < t->rank; d++)
            used +=
                (uint64_t)snprintf(out + used, room - used, "%s%llu", d ? "," : "", (unsigned long long)t->shape[d]);
        used += (uint64_t)snprintf(out + used, room - used, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                                   (unsigned long long)(at + 4 * t->element_count));
        at += 4 * t->element_count;
    }
    out[used++] = '}';
    memset(out + used, ' ', room - used);
    uint64_t length = room - 8;
    memcpy(out, &length, 8);
    *text = out;
    *bytes = room;
    return LZT_OK;
}

static lzt_status write_values(lzt_engine *engine, const lzt_model_info *m, const lzt_os *os, int fd, const char *path,
                               uint64_t at, lzt_error *err)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (m->tensor[i].element_count > most) most = m->tensor[i].element_count;
    float *values = malloc(most * sizeof *values);
    if (!values) return lzt_fail(err, LZT_ERR_NO_MEMORY, path, "no memory for the largest gradient");
    lzt_status status = LZT_OK;
    for (uint32_t i = 0; i < m->tensor_count && !status; i++) {
        uint64_t bytes = 4 * m->tensor[i].element_count;
        status = lzt_engine_read(engine, LZT_STATE_PART_GRADIENT, i, values, err);
        if (!status) status = lzt__os_write_all(os, fd, path, values, bytes, at, err);
        at += bytes;
    }
    free(values);
    return status;
}

lzt_status lzt__gradients_write(lzt_engine *engine, const char *path, lzt_error *err)
{
    const lzt_os *os = lzt__os_posix();
    lzt_engine_info info;
    char *header = NULL;
    uint64_t bytes = 0;
    int fd;
    lzt_engine_get_info(engine, &info);
    lzt_status status = make_header(info.model, &header, &bytes, err);
    if (status) return status;
    status = lzt__os_open(os, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666, &fd, err);
    if (!status) {
        status = lzt__os_write_all(os, fd, path, header, bytes, 0, err);
        if (!status) status = write_values(engine, info.model, os, fd, path, bytes, err);
        os->close(os, fd);
    }
    free(header);
    return status;
}
