/* Page protection for the checked device: see dev_fence.h.
 *
 *     closed --begin: declared pages open--> running --end: all close--> closed
 *                                            |   ^
 *                                            +---+ fault: written down, page opened
 *
 * The handler runs in whatever thread faults, possibly several at once, so it uses atomics, mprotect and a spin lock
 * that no code holds while touching the arena. A fault's address finds its fence through the registry, the one mutable
 * global of the library besides the handler that was there before: signals are the process's, not ours alone.
 */
#include "dev/checked/dev_fence.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define FENCE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FENCE_ASAN 1
#endif
#endif
#ifdef FENCE_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define PAGE LZT_DEV_ALIGNMENT
enum { FENCES_MAX = 64, OPENED_MAX = 64 };

typedef struct run {
    uint64_t begin, end; /* arena offsets on page borders */
    int prot;
} run;

typedef struct touch {
    bool seen;
    uint64_t offset; /* of the first */
} touch;

struct lzt_fence {
    fence_report_fn *report;
    void *report_ctx;
    pthread_mutex_t running; /* held from begin to end of a work */
    /* the arena; bytes is written last, once */
    char *arena;
    lzt_space space;
    _Atomic uint64_t bytes; /* 0: not armed */
    /* of the running work (running) */
    run *open;       /* [open_count] its pages */
    uint64_t *bound; /* scratch of the sweep */
    uint32_t open_count, capacity;
    const lzt_work *work; /* also read by the handler, under spin */
    /* what the handler leaves (spin) */
    atomic_flag spin;
    _Atomic pthread_t host;
    touch by_work[2], by_host[2]; /* [is_write] */
    uint64_t opened[OPENED_MAX];  /* pages that faults have opened */
    uint32_t opened_count;        /* above OPENED_MAX: the whole arena must be closed */
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(lzt_fence *) registry[FENCES_MAX];
static struct sigaction previous; /* registry_lock: the handler before ours; faults read it without */

/* ---- the handler */

static void lock(lzt_fence *f)
{
    while (atomic_flag_test_and_set_explicit(&f->spin, memory_order_acquire)) sched_yield();
}

static void unlock(lzt_fence *f)
{
    atomic_flag_clear_explicit(&f->spin, memory_order_release);
}

static bool is_write_fault(const void *context)
{
#if defined(__x86_64__)
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)context;
    return true;
#endif
}

static void note_touch(lzt_fence *f, uint64_t offset, bool is_write)
{
    lock(f);
    bool is_host = !f->work || pthread_equal(pthread_self(), f->host);
    touch *t = is_host ? &f->by_host[is_write] : &f->by_work[is_write];
    if (!t->seen) *t = (touch){true, offset};
    uint64_t page = offset / PAGE * PAGE;
    if (f->opened_count < OPENED_MAX) f->opened[f->opened_count] = page;
    if (f->opened_count <= OPENED_MAX) f->opened_count++;
    /* A read opens the page for reading only, so that a write after it is seen as well. */
    int rc = mprotect(f->arena + page, PAGE, is_write ? PROT_READ | PROT_WRITE : PROT_READ);
    unlock(f);
    assert(rc == 0);
    (void)rc;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); /* it faults again and ends the process */
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    for (int i = 0; i < FENCES_MAX; i++) {
        lzt_fence *f = registry[i];
        uint64_t bytes = f ? f->bytes : 0;
        if (!bytes) continue;
        uintptr_t address = (uintptr_t)info->si_addr, begin = (uintptr_t)f->arena;
        if (address < begin || address - begin >= (bytes + PAGE - 1) / PAGE * PAGE) continue;
        note_touch(f, address - begin, is_write_fault(context));
        errno = saved;
        return;
    }
    pass_on(number, info, context);
}

/* Makes ours the process's handler, also again when somebody has put another one over it since (a test framework does
 * so for each test); that one then gets the foreign faults. */
static int install(void)
{
    struct sigaction now, action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now)) return -1;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) return 0;
    previous = now;
    return sigaction(SIGSEGV, &action, NULL);
}

static lzt_status enlist(lzt_fence *f, lzt_error *err)
{
    lzt_status status = LZT_OK;
    pthread_mutex_lock(&registry_lock);
    if (install())
        status = lzt_fail_os(err, LZT_ERR_INTERNAL, errno, NULL, "cannot install the checked device's handler");
    int slot = 0;
    while (slot < FENCES_MAX && registry[slot]) slot++;
    if (!status && slot == FENCES_MAX)
        status = lzt_fail(err, LZT_ERR_INTERNAL, NULL, "more than %d checked devices at once", FENCES_MAX);
    if (!status) registry[slot] = f;
    pthread_mutex_unlock(&registry_lock);
    return status;
}

static void dismiss(lzt_fence *f)
{
    pthread_mutex_lock(&registry_lock);
    for (int i = 0; i < FENCES_MAX; i++)
        if (registry[i] == f) registry[i] = NULL;
    pthread_mutex_unlock(&registry_lock);
}

/* ---- pages of a work */

static uint64_t page_begin(const lzt_range *r)
{
    return r->offset / PAGE * PAGE;
}

static uint64_t page_end(const lzt_range *r)
{
    return (r->offset + r->bytes + PAGE - 1) / PAGE * PAGE;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_fenced(const lzt_fence *f, const lzt_range *r)
{
    return r->space == f->space && r->bytes;
}

static int prot_of(const lzt_fence *f, const lzt_work *work, uint64_t begin, uint64_t end)
{
    int prot = PROT_NONE;
    for (uint32_t i = 0; i < work->range_count; i++) {
        const lzt_range *r = &work->range[i];
        if (!is_fenced(f, r) || page_begin(r) > begin || page_end(r) < end) continue;
        prot |= r->access & LZT_ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
    }
    return prot;
}

/* The declared pages as disjoint runs of equal rights. */
static void sweep(lzt_fence *f, const lzt_work *work)
{
    uint32_t bounds = 0;
    f->open_count = 0;
    for (uint32_t i = 0; i < work->range_count; i++) {
        if (!is_fenced(f, &work->range[i])) continue;
        f->bound[bounds++] = page_begin(&work->range[i]);
        f->bound[bounds++] = page_end(&work->range[i]);
    }
    qsort(f->bound, bounds, sizeof *f->bound, by_value);
    for (uint32_t i = 0; i + 1 < bounds; i++) {
        uint64_t begin = f->bound[i], end = f->bound[i + 1];
        int prot = begin < end ? prot_of(f, work, begin, end) : PROT_NONE;
        if (prot == PROT_NONE) continue;
        run *last = f->open_count ? &f->open[f->open_count - 1] : NULL;
        if (last && last->end == begin && last->prot == prot)
            last->end = end;
        else
            f->open[f->open_count++] = (run){begin, end, prot};
    }
}

static void protect(lzt_fence *f, uint64_t begin, uint64_t end, int prot)
{
    int rc = mprotect(f->arena + begin, end - begin, prot);
    assert(rc == 0); /* more mappings than vm.max_map_count, or no kernel memory: nothing can be checked any more */
    (void)rc;
}

#ifdef FENCE_ASAN
static void poison_rest(lzt_fence *f, const lzt_work *work)
{
    for (uint32_t i = 0; i < work->range_count; i++) {
        const lzt_range *r = &work->range[i];
        if (!is_fenced(f, r)) continue;
        uint64_t end = r->offset + r->bytes;
        ASAN_POISON_MEMORY_REGION(f->arena + page_begin(r), r->offset - page_begin(r));
        ASAN_POISON_MEMORY_REGION(f->arena + end, page_end(r) - end);
    }
    for (uint32_t i = 0; i < work->range_count; i++)
        if (is_fenced(f, &work->range[i]))
            ASAN_UNPOISON_MEMORY_REGION(f->arena + work->range[i].offset, work->range[i].bytes);
}
static void unpoison(lzt_fence *f, const run *r)
{
    ASAN_UNPOISON_MEMORY_REGION(f->arena + r->begin, r->end - r->begin);
}
#else
static void poison_rest(lzt_fence *f, const lzt_work *work)
{
    (void)f, (void)work;
}
static void unpoison(lzt_fence *f, const run *r)
{
    (void)f, (void)r;
}
#endif

static void make_room(lzt_fence *f, uint32_t ranges)
{
    if (ranges <= f->capacity && f->open) return;
    f->capacity = ranges * 2 + 8;
    free(f->open);
    free(f->bound);
    f->open = malloc(2 * f->capacity * sizeof *f->open);
    f->bound = malloc(2 * f->capacity * sizeof *f->bound);
    assert(f->open && f->bound); /* a debugging device; there is nobody to return an error to */
}

void lzt__fence_begin(lzt_fence *f, const lzt_work *work)
{
    pthread_mutex_lock(&f->running);
    make_room(f, work->range_count);
    sweep(f, work);
    for (uint32_t i = 0; i < f->open_count; i++) protect(f, f->open[i].begin, f->open[i].end, f->open[i].prot);
    poison_rest(f, work);
    lock(f);
    f->work = work;
    unlock(f);
}

/* Closes the pages that faults have opened; takes the touches of one kind away. */
static void close_opened(lzt_fence *f, touch found[2])
{
    uint64_t all = (f->bytes + PAGE - 1) / PAGE * PAGE;
    lock(f);
    f->work = NULL;
    if (f->opened_count > OPENED_MAX)
        protect(f, 0, all, PROT_NONE);
    else
        for (uint32_t i = 0; i < f->opened_count; i++) protect(f, f->opened[i], f->opened[i] + PAGE, PROT_NONE);
    f->opened_count = 0;
    for (int w = 0; w < 2; w++) {
        found[w] = f->by_work[w];
        f->by_work[w] = (touch){0};
    }
    unlock(f);
}

void lzt__fence_end(lzt_fence *f)
{
    touch found[2];
    const char *name = f->work->name;
    for (uint32_t i = 0; i < f->open_count; i++) {
        unpoison(f, &f->open[i]);
        if (i && f->open[i - 1].end == f->open[i].begin) { /* one call for neighbours */
            f->open[i].begin = f->open[i - 1].begin;
            f->open[i - 1].end = f->open[i - 1].begin;
        }
    }
    for (uint32_t i = 0; i < f->open_count; i++)
        if (f->open[i].begin < f->open[i].end) protect(f, f->open[i].begin, f->open[i].end, PROT_NONE);
    close_opened(f, found);
    pthread_mutex_unlock(&f->running);
    for (int w = 0; w < 2; w++)
        if (found[w].seen) f->report(f->report_ctx, name, found[w].offset, w);
}

void lzt__fence_flush(lzt_fence *f)
{
    touch found[2];
    lock(f);
    for (int w = 0; w < 2; w++) {
        found[w] = f->by_host[w];
        f->by_host[w] = (touch){0};
    }
    unlock(f);
    for (int w = 0; w < 2; w++)
        if (found[w].seen) f->report(f->report_ctx, NULL, found[w].offset, w);
}

void lzt__fence_host(lzt_fence *f)
{
    f->host = pthread_self();
}

lzt_status lzt__fence_arm(lzt_fence *f, lzt_space space, void *arena, uint64_t bytes, lzt_error *err)
{
    assert(!f->bytes && (uintptr_t)arena % PAGE == 0);
    if (!bytes) return LZT_OK;
    (void)madvise(arena, bytes, MADV_NOHUGEPAGE); /* rights are per small page: huge ones would be torn each time */
    if (mprotect(arena, bytes, PROT_NONE))
        return lzt_fail_os(err, LZT_ERR_NO_MEMORY, errno, NULL, "cannot protect the arena");
    f->arena = arena;
    f->space = space;
    f->bytes = bytes;
    return LZT_OK;
}

lzt_status lzt__fence_create(fence_report_fn *report, void *ctx, lzt_fence **out, lzt_error *err)
{
    lzt_fence *f = calloc(1, sizeof *f);
    if (!f) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for a fence");
    f->report = report;
    f->report_ctx = ctx;
    f->host = pthread_self();
    f->space = LZT_SPACE_COUNT; /* no range is fenced before arm */
    atomic_flag_clear(&f->spin);
    pthread_mutex_init(&f->running, NULL);
    lzt_status status = enlist(f, err);
    if (status) {
        lzt__fence_destroy(f);
        return status;
    }
    *out = f;
    return LZT_OK;
}

void lzt__fence_destroy(lzt_fence *f)
{
    if (!f) return;
    dismiss(f);
    pthread_mutex_destroy(&f->running);
    free(f->open);
    free(f->bound);
    free(f);
}
