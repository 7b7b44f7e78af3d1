/* A library that looks like HiGHS to highs_library.c and fails on demand, for highs_test. $LZT_FAKE_HIGHS says how:
 *
 *     pass, run    that call never returns
 *     crash, leave, killed, ended     the process ends in Highs_run
 *     late         Highs_run returns with the status "time limit" and no solution
 *     refuse       the model is refused
 *     wide         its integers have eight bytes
 *
 * $LZT_FAKE_HIGHS_VERSION is its version. Built with LZT_FAKE_HIGHS_PART it lacks Highs_setSolution. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIME_LIMIT = 13 };

static int thing;

static int wants(const char *what)
{
    const char *wanted = getenv("LZT_FAKE_HIGHS");
    return wanted && !strcmp(wanted, what);
}

static void sleep_for_good(void)
{
    for (;;) pause();
}

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *Highs_version(void);
EXPORT void *Highs_create(void);
EXPORT void Highs_destroy(void *highs);
EXPORT int Highs_getSizeofHighsInt(const void *highs);
EXPORT double Highs_getInfinity(const void *highs);
EXPORT int Highs_setBoolOptionValue(void *highs, const char *option, int value);
EXPORT int Highs_setIntOptionValue(void *highs, const char *option, int value);
EXPORT int Highs_setDoubleOptionValue(void *highs, const char *option, double value);
EXPORT int Highs_setStringOptionValue(void *highs, const char *option, const char *value);
EXPORT int Highs_passMip(void *highs);
#ifndef LZT_FAKE_HIGHS_PART
EXPORT int Highs_setSolution(void *highs);
#endif
EXPORT int Highs_run(void *highs);
EXPORT int Highs_getModelStatus(const void *highs);
EXPORT int Highs_getDoubleInfoValue(const void *highs, const char *info, double *value);
EXPORT int Highs_getSolution(const void *highs);

const char *Highs_version(void)
{
    const char *version = getenv("LZT_FAKE_HIGHS_VERSION");
    return version ? version : "1.15.1";
}

void *Highs_create(void)
{
    return &thing;
}

void Highs_destroy(void *highs)
{
    (void)highs;
}

int Highs_getSizeofHighsInt(const void *highs)
{
    (void)highs;
    return wants("wide") ? 8 : (int)sizeof(int);
}

double Highs_getInfinity(const void *highs)
{
    (void)highs;
    return 1e30;
}

int Highs_setBoolOptionValue(void *highs, const char *option, int value)
{
    (void)highs, (void)option, (void)value;
    return 0;
}

int Highs_setIntOptionValue(void *highs, const char *option, int value)
{
    return Highs_setBoolOptionValue(highs, option, value);
}

int Highs_setDoubleOptionValue(void *highs, const char *option, double value)
{
    (void)highs, (void)option, (void)value;
    return 0;
}

int Highs_setStringOptionValue(void *highs, const char *option, const char *value)
{
    (void)highs, (void)option, (void)value;
    return 0;
}

int Highs_passMip(void *highs)
{
    (void)highs;
    if (wants("pass")) sleep_for_good();
    return wants("refuse") ? -1 : 0;
}

#ifndef LZT_FAKE_HIGHS_PART
int Highs_setSolution(void *highs)
{
    (void)highs;
    return 0;
}
#endif

int Highs_run(void *highs)
{
    (void)highs;
    if (wants("run")) sleep_for_good();
    if (wants("crash")) abort();
    if (wants("leave")) _exit(0);
    if (wants("killed")) raise(SIGKILL);
    if (wants("ended")) raise(SIGTERM);
    return 0;
}

int Highs_getModelStatus(const void *highs)
{
    (void)highs;
    return TIME_LIMIT;
}

int Highs_getDoubleInfoValue(const void *highs, const char *info, double *value)
{
    (void)highs, (void)info;
    *value = 0;
    return 0;
}

int Highs_getSolution(const void *highs)
{
    (void)highs;
    return -1;
}
