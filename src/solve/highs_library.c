/* Loading HiGHS: see highs_library.h. */
#include "solve/highs_library.h"

#include "lazytrain/solve.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a library was looked for, for messages. */
typedef struct attempt {
    char path[4200];
    const char *named_by; /* "": nobody did */
    char why[512];        /* the linker's, where it did not load */
} attempt;

static void *load(attempt *a)
{
    void *handle = dlopen(a->path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? "" : dlerror();
    size_t length = strlen(a->path);
    if (why && !strncmp(why, a->path, length) && !strncmp(why + length, ": ", 2)) why += length + 2;
    snprintf(a->why, sizeof a->why, "%s", why ? why : "cannot be loaded");
    return handle;
}

/* Beside the program: build/highs (tools/install-highs), or lib/lazytrain of an installation. Of what lies there the
 * first is taken, or refused: the system's is not taken in place of a broken one. */
static bool find_beside_program(attempt *a)
{
    static const char *const places[] = {"../highs", "../../highs", "../lib/lazytrain"};
    char program[3072];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return false;
    program[length] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(a->path, sizeof a->path, "%s/%s/libhighs.so", program, places[i]);
        if (!access(a->path, F_OK)) return true;
    }
    return false;
}

bool lzt__highs_is_named(const char *path)
{
    const char *environment = getenv("LZT_HIGHS");
    return path || (environment && *environment);
}

static void *open_any(const char *path, attempt *a)
{
    *a = (attempt){.named_by = ""};
    if (lzt__highs_is_named(path)) {
        a->named_by = path ? " (--highs-library)" : " ($LZT_HIGHS)";
        const char *named = path ? path : getenv("LZT_HIGHS");
        bool is_here = !strchr(named, '/') && !access(named, F_OK); /* the linker would look elsewhere */
        snprintf(a->path, sizeof a->path, "%s%s", is_here ? "./" : "", named);
        return load(a);
    }
    if (find_beside_program(a)) return load(a);
    snprintf(a->path, sizeof a->path, "libhighs.so.1");
    void *handle = load(a);
    if (handle) return handle;
    snprintf(a->path, sizeof a->path, "libhighs.so");
    return load(a);
}

/* Looks all functions up; the name of the first that is missing, or NULL. */
static const char *bind_all(lzt__highs_library *l)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"Highs_version", &l->version},
        {"Highs_create", &l->create},
        {"Highs_destroy", &l->destroy},
        {"Highs_getSizeofHighsInt", &l->int_bytes},
        {"Highs_getInfinity", &l->infinity},
        {"Highs_setBoolOptionValue", &l->set_bool},
        {"Highs_setIntOptionValue", &l->set_int},
        {"Highs_setDoubleOptionValue", &l->set_double},
        {"Highs_setStringOptionValue", &l->set_string},
        {"Highs_passMip", &l->pass_mip},
        {"Highs_setSolution", &l->set_solution},
        {"Highs_run", &l->run},
        {"Highs_getModelStatus", &l->model_status},
        {"Highs_getDoubleInfoValue", &l->get_double},
        {"Highs_getSolution", &l->get_solution},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(l->handle, symbols[i].name);
        if (!found) return symbols[i].name;
        memcpy(symbols[i].slot, &found, sizeof found); /* ISO C has no cast from data to function pointers */
    }
    return NULL;
}

static lzt_status refuse(lzt__highs_library *l, const attempt *a, lzt_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static lzt_status refuse(lzt__highs_library *l, const attempt *a, lzt_error *err, const char *format, ...)
{
    char why[600];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    lzt_fail(err, LZT_ERR_USAGE, "HiGHS", "%s%s %s", a->path, a->named_by, why);
    lzt_hint(err, "eval \"$(tools/install-highs)\" fetches one that fits (or pip install highsbox, and "
                  "LZT_HIGHS=.../libhighs.so); --solver dp needs none");
    lzt__highs_close(l);
    return LZT_ERR_USAGE;
}

/* Whether "1.15.1" is a version whose interface we know. */
static bool is_known(const char *version)
{
    int major = 0, minor = 0;
    return version && sscanf(version, "%d.%d", &major, &minor) == 2 && major == LZT__HIGHS_MAJOR &&
           minor >= LZT__HIGHS_MINOR_MIN;
}

lzt_status lzt__highs_open(const char *path, lzt__highs_library *l, lzt_error *err)
{
    attempt a;
    memset(l, 0, sizeof *l);
    l->handle = open_any(path, &a);
    if (!l->handle) return refuse(l, &a, err, "cannot be loaded: %s", a.why);
    const char *missing = bind_all(l);
    if (missing) return refuse(l, &a, err, "is no HiGHS that we know: it lacks the function %s", missing);
    const char *version = l->version();
    if (!is_known(version))
        return refuse(l, &a, err, "is HiGHS %.40s, not %d.%d or a later %d", version ? version : "of no version",
                      LZT__HIGHS_MAJOR, LZT__HIGHS_MINOR_MIN, LZT__HIGHS_MAJOR);
    void *highs = l->create();
    if (!highs) return refuse(l, &a, err, "makes no solver: its memory is out");
    lzt__highs_int bytes = l->int_bytes(highs);
    l->destroy(highs);
    if (bytes == (lzt__highs_int)sizeof(lzt__highs_int)) return LZT_OK;
    return refuse(l, &a, err, "was built with integers of %d bytes, not %zu", bytes, sizeof(lzt__highs_int));
}

void lzt__highs_close(lzt__highs_library *l)
{
    if (l->handle) dlclose(l->handle);
    memset(l, 0, sizeof *l);
}

bool lzt_solve_has_highs(const char *path, char version[32])
{
    lzt__highs_library library;
    if (lzt__highs_open(path, &library, NULL)) return false;
    if (version) snprintf(version, 32, "%s", library.version());
    lzt__highs_close(&library);
    return true;
}
