/* LD_PRELOAD: counts heap calls by caller and, at each line of metrics.jsonl, takes the state of the heap.
 *
 * A step ends where its line ({"schema":1,"step":...) is written. At exit LZT_ALLOC_OUT receives one JSON object: the
 * live bytes at each line, and for each calling address with calls after line LZT_ALLOC_FROM (default 2) and before the
 * last line: library, offset in it, calls, bytes. The table is fixed; nothing here allocates.
 *
 * Built by spine-5-allocations: cc -shared -fPIC -O2 -o alloc_count.so alloc_count.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLERS = 1 << 14, LINES = 1024, EARLY = 1 << 16 };

typedef struct caller {
    _Atomic(uintptr_t) address;
    _Atomic uint64_t calls, bytes;
    uint64_t calls_from, bytes_from; /* at line LZT_ALLOC_FROM */
    uint64_t calls_last, bytes_last; /* at the last line */
} caller;

static caller table[CALLERS];
static _Atomic int64_t live_bytes;
static int64_t live_at[LINES];
static unsigned line_count;
static _Atomic uint64_t lost;

static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t), *(*next_realloc)(void *, size_t);
static void *(*next_aligned)(size_t, size_t);
static int (*next_posix)(void **, size_t, size_t);
static void (*next_free)(void *);

/* dlsym itself may ask for memory before it has found calloc. */
static char early[EARLY];
static size_t early_used;

static int is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + EARLY;
}

static void *early_calloc(size_t bytes)
{
    size_t at = (early_used + 15) & ~(size_t)15;
    if (at + bytes > EARLY) _exit(99);
    early_used = at + bytes;
    return early + at;
}

static void find_next(void)
{
    static int state;
    if (state) return;
    state = 1;
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_aligned = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    next_posix = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

static void count(void *address, const void *memory, size_t bytes)
{
    uintptr_t a = (uintptr_t)address;
    if (memory) live_bytes += (int64_t)malloc_usable_size((void *)(uintptr_t)memory);
    for (size_t i = a * UINT64_C(0x9e3779b97f4a7c15) >> 50, tries = 0; tries < CALLERS;
         i = (i + 1) % CALLERS, tries++) {
        uintptr_t seen = 0;
        if (table[i].address == a || atomic_compare_exchange_strong(&table[i].address, &seen, a) || seen == a) {
            table[i].calls++;
            table[i].bytes += bytes;
            return;
        }
    }
    lost++;
}

void *malloc(size_t bytes)
{
    find_next();
    void *p = next_malloc ? next_malloc(bytes) : early_calloc(bytes);
    if (!is_early(p)) count(__builtin_return_address(0), p, bytes);
    return p;
}

void *calloc(size_t number, size_t bytes)
{
    find_next();
    void *p = next_calloc ? next_calloc(number, bytes) : early_calloc(number * bytes);
    if (!is_early(p)) count(__builtin_return_address(0), p, number * bytes);
    return p;
}

void *realloc(void *old, size_t bytes)
{
    find_next();
    if (is_early(old)) {
        void *p = malloc(bytes);
        if (p) memcpy(p, old, bytes);
        return p;
    }
    int64_t before = old ? (int64_t)malloc_usable_size(old) : 0;
    void *p = next_realloc(old, bytes);
    if (p || !bytes) live_bytes -= before;
    count(__builtin_return_address(0), p, bytes);
    return p;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    find_next();
    void *p = next_aligned(alignment, bytes);
    count(__builtin_return_address(0), p, bytes);
    return p;
}

void *memalign(size_t alignment, size_t bytes)
{
    find_next();
    void *p = next_aligned(alignment, bytes);
    count(__builtin_return_address(0), p, bytes);
    return p;
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    find_next();
    int error = next_posix(out, alignment, bytes);
    count(__builtin_return_address(0), error ? NULL : *out, bytes);
    return error;
}

void free(void *p)
{
    find_next();
    if (!p || is_early(p)) return;
    live_bytes -= (int64_t)malloc_usable_size(p);
    next_free(p);
}

/* ---- lines ---- */

static void look(const void *text, size_t bytes)
{
    static const char start[] = "{\"schema\":1,\"step\":";
    const char *from = getenv("LZT_ALLOC_FROM");
    if (bytes < sizeof start || memcmp(text, start, sizeof start - 1) || line_count >= LINES) return;
    live_at[line_count++] = live_bytes;
    int is_from = line_count == (from ? (unsigned)atoi(from) : 2);
    for (size_t i = 0; i < CALLERS; i++) {
        table[i].calls_last = table[i].calls;
        table[i].bytes_last = table[i].bytes;
        if (!is_from) continue;
        table[i].calls_from = table[i].calls;
        table[i].bytes_from = table[i].bytes;
    }
}

ssize_t write(int fd, const void *text, size_t bytes)
{
    look(text, bytes);
    return syscall(SYS_write, fd, text, bytes);
}

ssize_t pwrite(int fd, const void *text, size_t bytes, off_t at)
{
    look(text, bytes);
    return syscall(SYS_pwrite64, fd, text, bytes, at);
}

ssize_t pwrite64(int fd, const void *text, size_t bytes, off64_t at)
{
    look(text, bytes);
    return syscall(SYS_pwrite64, fd, text, bytes, at);
}

static __attribute__((destructor)) void print(void)
{
    const char *path = getenv("LZT_ALLOC_OUT");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) return;
    fprintf(out, "{\"lost\": %llu, \"live\": [", (unsigned long long)lost);
    for (unsigned i = 0; i < line_count; i++) fprintf(out, "%s%lld", i ? ", " : "", (long long)live_at[i]);
    fprintf(out, "], \"callers\": [");
    const char *comma = "";
    for (size_t i = 0; i < CALLERS; i++) {
        Dl_info info;
        const caller *c = &table[i];
        if (c->calls_last <= c->calls_from) continue;
        if (!dladdr((void *)c->address, &info)) info.dli_fname = "unknown", info.dli_fbase = NULL;
        fprintf(out, "%s\n{\"library\": \"%s\", \"offset\": %llu, \"calls\": %llu, \"bytes\": %llu}", comma,
                info.dli_fname, (unsigned long long)(c->address - (uintptr_t)info.dli_fbase),
                (unsigned long long)(c->calls_last - c->calls_from),
                (unsigned long long)(c->bytes_last - c->bytes_from));
        comma = ",";
    }
    fprintf(out, "]}\n");
    fclose(out);
}
