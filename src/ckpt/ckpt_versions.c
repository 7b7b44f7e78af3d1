/* The versions under a root: listing, rotation, pruning; see lazytrain/ckpt.h.
 *
 * A version is removed by renaming it to a hidden name first: a kill in the middle of the removal leaves a dead hidden
 * directory, never half a version.
 */
#include "ckpt/ckpt_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *lzt__ckpt_directory(const char *root, uint64_t step)
{
    char *path = NULL;
    int bytes = asprintf(&path, "%s/" LZT__CKPT_DIR_PREFIX "%llu", root, (unsigned long long)step);
    return bytes < 0 ? NULL : path;
}

static void say(lzt_ckpt_note *note, void *arg, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(lzt_ckpt_note *note, void *arg, const char *fmt, ...)
{
    if (!note) return;
    char line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    note(arg, line);
}

typedef struct step_list {
    uint64_t *step;
    uint32_t count, capacity;
} step_list;

/* "step-N" with N as the writer prints it. */
static bool parse_step(const char *name, uint64_t *step)
{
    size_t prefix = strlen(LZT__CKPT_DIR_PREFIX);
    if (strncmp(name, LZT__CKPT_DIR_PREFIX, prefix)) return false;
    const char *digits = name + prefix;
    size_t length = strlen(digits);
    if (!length || length > 19 || strspn(digits, "0123456789") != length || (length > 1 && *digits == '0'))
        return false;
    *step = strtoull(digits, NULL, 10);
    return true;
}

static int collect_step(void *arg, const char *name)
{
    step_list *list = arg;
    uint64_t step;
    if (!parse_step(name, &step)) return 0;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
        uint64_t *grown = realloc(list->step, capacity * sizeof *grown);
        if (!grown) return -ENOMEM;
        list->step = grown;
        list->capacity = capacity;
    }
    list->step[list->count++] = step;
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

lzt_status lzt__ckpt_steps(const lzt_os *os, const char *root, uint64_t **step, uint32_t *count, lzt_error *err)
{
    step_list list = {0};
    *step = NULL;
    *count = 0;
    int fd = os->openat(os, AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) return LZT_OK;
    if (fd < 0) return lzt_fail_os(err, LZT_ERR_STORAGE, -fd, root, "cannot open the directory");
    int rc = os->list(os, fd, collect_step, &list);
    os->close(os, fd);
    if (rc < 0) {
        free(list.step);
        return lzt_fail_os(err, LZT_ERR_STORAGE, -rc, root, "cannot list the directory");
    }
    if (list.count) qsort(list.step, list.count, sizeof *list.step, newest_first);
    *step = list.step;
    *count = list.count;
    return LZT_OK;
}

static lzt_status remove_version(const lzt_os *os, const char *root, uint64_t step, lzt_error *err)
{
    char from[64], to[96];
    int fd;
    snprintf(from, sizeof from, LZT__CKPT_DIR_PREFIX "%llu", (unsigned long long)step);
    snprintf(to, sizeof to, ".%s.tmp-%ld", from, (long)getpid());
    lzt_status status = lzt__os_open(os, AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0, &fd, err);
    if (status) return status;
    int rc = os->renameat(os, fd, from, fd, to, 0);
    status = rc < 0 ? lzt_fail_os(err, LZT_ERR_STORAGE, -rc, from, "cannot be removed") : LZT_OK;
    if (!status) status = lzt__os_remove_tree(os, fd, to, err);
    os->close(os, fd);
    return status;
}

static bool is_complete(const lzt_os *os, const char *root, uint64_t step, uint64_t *bytes, lzt_error *err)
{
    lzt__ckpt_manifest manifest;
    char *directory = lzt__ckpt_directory(root, step);
    if (!directory) {
        lzt_fail(err, LZT_ERR_NO_MEMORY, root, "no memory");
        return false;
    }
    lzt_status status = lzt__ckpt_manifest_read(os, directory, &manifest, err);
    free(directory);
    if (status) return false;
    bool named_right = manifest.step == step;
    if (!named_right)
        lzt_fail(err, LZT_ERR_MODEL, root, "the manifest is of step %llu", (unsigned long long)manifest.step);
    *bytes = 0;
    for (uint32_t i = 0; i < manifest.file_count; i++) *bytes += manifest.file[i].bytes;
    lzt__ckpt_manifest_fini(&manifest);
    return named_right;
}

void lzt__ckpt_rotate(const lzt_os *os, const char *root, uint64_t keep, lzt_ckpt_note *note, void *arg)
{
    lzt_error err = {0};
    uint64_t *steps, bytes, complete = 0;
    uint32_t count;
    if (lzt__ckpt_steps(os, root, &steps, &count, &err)) {
        say(note, arg, "%s: old versions are not removed: %s", root, err.message);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_complete(os, root, steps[i], &bytes, &err) || ++complete <= keep) continue;
        if (remove_version(os, root, steps[i], &err))
            say(note, arg, LZT__CKPT_DIR_PREFIX "%llu: not removed: %s: %s", (unsigned long long)steps[i], err.where,
                err.message);
    }
    free(steps);
}

lzt_status lzt_ckpt_list(const char *root, lzt_ckpt_visit *visit, void *arg, lzt_error *err)
{
    const lzt_os *os = lzt__os_posix();
    uint64_t *steps;
    uint32_t count;
    lzt_status status = lzt__ckpt_steps(os, root, &steps, &count, err);
    for (uint32_t i = 0; i < count && !status; i++) {
        lzt_error problem = {0};
        char text[1600];
        char *directory = lzt__ckpt_directory(root, steps[i]);
        if (!directory) {
            status = lzt_fail(err, LZT_ERR_NO_MEMORY, root, "no memory");
            break;
        }
        lzt_ckpt_version version = {.step = steps[i], .directory = directory};
        version.is_complete = is_complete(os, root, steps[i], &version.bytes, &problem);
        snprintf(text, sizeof text, "%s: %s", problem.where, problem.message);
        version.problem = version.is_complete ? "" : text;
        status = visit(arg, &version, err);
        free(directory);
    }
    free(steps);
    return status;
}

lzt_status lzt__ckpt_prune(const lzt_os *os, const char *root, uint64_t keep, bool dry_run, lzt_ckpt_note *note,
                           void *arg, lzt_error *err)
{
    uint64_t *steps, bytes, complete = 0;
    uint32_t count;
    if (!keep) return lzt_fail(err, LZT_ERR_USAGE, "keep", "at least one version is kept");
    lzt_status status = lzt__ckpt_steps(os, root, &steps, &count, err);
    if (status) return status;
    bool *whole = calloc(count + 1, sizeof *whole);
    lzt_error problem = {0};
    if (!whole) status = lzt_fail(err, LZT_ERR_NO_MEMORY, root, "no memory");
    for (uint32_t i = 0; i < count && !status; i++)
        complete += whole[i] = is_complete(os, root, steps[i], &bytes, &problem);
    bool any = complete > 0;
    complete = 0;
    for (uint32_t i = 0; i < count && !status; i++) {
        bool stays = whole[i] ? ++complete <= keep : !any;
        const char *what = stays ? "kept" : dry_run ? "would be removed" : "removed";
        if (!stays && !dry_run) status = remove_version(os, root, steps[i], err);
        if (!status)
            say(note, arg, LZT__CKPT_DIR_PREFIX "%llu: %s%s", (unsigned long long)steps[i], what,
                whole[i] ? "" : " (not complete)");
    }
    free(whole);
    free(steps);
    return status;
}

lzt_status lzt_ckpt_prune(const char *root, uint64_t keep, bool dry_run, lzt_ckpt_note *note, void *arg, lzt_error *err)
{
    return lzt__ckpt_prune(lzt__os_posix(), root, keep, dry_run, note, arg, err);
}
