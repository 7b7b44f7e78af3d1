/* Binding while nobody else computes: see affinity.h. */
#include "base/affinity.h"

#include "base/clock.h"
#include "base/os.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS     (LZT_NS_PER_S / 2)
#define BEGIN_SHARE 0.08
#define END_SHARE   0.15

enum { TEXT_MAX = 1 << 17 }; /* of /proc/stat; a line a CPU, some 80 bytes */

static _Atomic uint32_t turn; /* odd: bound */
static _Atomic uint64_t next_look_ns;
static atomic_flag looking = ATOMIC_FLAG_INIT;

/* What the last look saw; by whoever holds `looking`. */
static struct {
    char text[TEXT_MAX];
    double idle, own;
    uint64_t ns;
} last;

static bool process_cpus(cpu_set_t *cpus)
{
    return !sched_getaffinity(getpid(), sizeof *cpus, cpus);
}

bool lzt__affinity_idle(const char *text, const cpu_set_t *cpus, double ticks_per_s, double *seconds)
{
    int wanted = CPU_COUNT(cpus);
    *seconds = 0;
    for (const char *line = text; line && wanted; line = strchr(line, '\n')) {
        line += *line == '\n';
        int cpu;
        unsigned long long user, nice, system, idle, iowait;
        if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu", &cpu, &user, &nice, &system, &idle, &iowait) != 6) continue;
        if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, cpus)) continue;
        *seconds += (double)(idle + iowait) / ticks_per_s;
        wanted--;
    }
    return !wanted;
}

bool lzt__affinity_alone(bool bound, double others, double elapsed)
{
    return others <= (bound ? END_SHARE : BEGIN_SHARE) * elapsed;
}

static bool read_stat(char *text)
{
    const lzt_os *os = lzt__os_posix();
    int fd = os->openat(os, AT_FDCWD, "/proc/stat", O_RDONLY, 0);
    if (fd < 0) return false;
    int64_t n = os->pread(os, fd, text, TEXT_MAX - 1, 0);
    os->close(os, fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static double own_seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Time passes on a CPU in three ways: idle, for us, for others. */
static bool should_bind(bool bound, uint64_t now_ns)
{
    cpu_set_t cpus;
    double idle, own = own_seconds();
    if (!process_cpus(&cpus) || !read_stat(last.text) ||
        !lzt__affinity_idle(last.text, &cpus, (double)sysconf(_SC_CLK_TCK), &idle)) {
        last.ns = 0;
        return false;
    }
    double elapsed = lzt__clock_seconds(now_ns - last.ns), all = elapsed * CPU_COUNT(&cpus);
    bool known = last.ns, alone = lzt__affinity_alone(bound, all - (idle - last.idle) - (own - last.own), elapsed);
    last.idle = idle;
    last.own = own;
    last.ns = now_ns;
    return known && alone;
}

void lzt__affinity_look(void)
{
    uint64_t now_ns = lzt__clock_ns();
    if (now_ns < next_look_ns || atomic_flag_test_and_set(&looking)) return;
    if (now_ns >= next_look_ns) {
        bool bound = turn & 1;
        if (should_bind(bound, now_ns) != bound) turn++;
        next_look_ns = now_ns + LOOK_NS;
    }
    atomic_flag_clear(&looking);
}

uint32_t lzt__affinity_turn(void)
{
    return turn;
}

bool lzt__affinity_mask(bool bound, const cpu_set_t *all, uint32_t part, uint32_t part_count, cpu_set_t *mask)
{
    if (CPU_COUNT(all) != (int)part_count) return false;
    *mask = *all;
    if (!bound) return true;
    CPU_ZERO(mask);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all) && part-- == 0) CPU_SET(cpu, mask);
    return true;
}

void lzt__affinity_thread(uint32_t part, uint32_t part_count)
{
    static _Thread_local uint32_t seen;
    uint32_t now = turn;
    cpu_set_t all, mask;
    if (now == seen) return;
    seen = now;
    if (gettid() == getpid() || !process_cpus(&all)) return;
    if (lzt__affinity_mask(now & 1, &all, part, part_count, &mask)) (void)sched_setaffinity(0, sizeof mask, &mask);
}
