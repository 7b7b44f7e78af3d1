/* Loading HiGHS: see highs_library.h. */
#include "solve/highs_library.h"

#include "lazytrain/solve.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the program: build/highs (tools/install-highs), or lib/lazytrain of an installation. */
static void *open_beside_program(void)
{
    static const char *const places[] = {"../highs", "../../highs", "../lib/lazytrain"};
    char program[3072], path[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return NULL;
    program[length] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s/libhighs.so", program, places[i]);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle) return handle;
    }
    return NULL;
}

static void *open_any(const char *path, const char **tried)
{
    const char *environment = getenv("LZT_HIGHS");
    if (!path && environment && *environment) path = environment;
    *tried = path ? path : "libhighs.so";
    if (path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *handle = open_beside_program();
    if (!handle) handle = dlopen("libhighs.so.1", RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("libhighs.so", RTLD_NOW | RTLD_LOCAL);
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

static lzt_status refuse(lzt__highs_library *l, const char *tried, const char *why, lzt_error *err)
{
    lzt_fail(err, LZT_ERR_USAGE, "HiGHS", "%s: %s", tried, why);
    lzt_hint(
        err,
        "install it (tools/install-highs, or pip install highsbox and LZT_HIGHS=.../libhighs.so), or use --solver dp");
    lzt__highs_close(l);
    return LZT_ERR_USAGE;
}

lzt_status lzt__highs_open(const char *path, lzt__highs_library *l, lzt_error *err)
{
    const char *tried;
    memset(l, 0, sizeof *l);
    l->handle = open_any(path, &tried);
    if (!l->handle) return refuse(l, tried, dlerror(), err);
    const char *missing = bind_all(l);
    if (missing) return refuse(l, tried, missing, err);
    void *highs = l->create();
    bool fits = highs && l->int_bytes(highs) == (lzt__highs_int)sizeof(lzt__highs_int);
    if (highs) l->destroy(highs);
    return fits ? LZT_OK : refuse(l, tried, "was built with 64-bit integers", err);
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
