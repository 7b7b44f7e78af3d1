/* Goal: each fault that would stop a run is named, with its way out, and no healthy machine is blamed. Method: a table
 * of facts that answers in the system's place; ten faults are planted one at a time, and the check of that fault, and
 * no other, must object. tests/doctor_run_test.c plants in the real system what can be planted there. */
#include "cli/doctor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

/* A machine as the test wants it. facts must be the first member. */
typedef struct machine {
    lzt_facts facts;
    uid_t owner;
    uint64_t memlock_bytes, total_bytes, available_bytes, free_bytes;
    bool spill_is_memory, may_write;
    int direct_rc, uring_rc, gds_rc;
    const char *clock, *stale, *held;
} machine;

static const machine *of(const lzt_facts *facts)
{
    return (const machine *)facts;
}

static uid_t user(const lzt_facts *facts)
{
    (void)facts;
    return 1000;
}

static int memlock(const lzt_facts *facts, uint64_t *bytes)
{
    *bytes = of(facts)->memlock_bytes;
    return 0;
}

static int memory(const lzt_facts *facts, uint64_t *total, uint64_t *available)
{
    *total = of(facts)->total_bytes;
    *available = of(facts)->available_bytes;
    return 0;
}

static int filesystem(const lzt_facts *facts, const char *path, lzt_filesystem *out)
{
    bool memory_here = !strcmp(path, "spill") && of(facts)->spill_is_memory;
    *out = (lzt_filesystem){.id = memory_here, .free_bytes = of(facts)->free_bytes, .is_memory = memory_here};
    out->name = memory_here ? "tmpfs" : "ext4";
    return 0;
}

static int place(const lzt_facts *facts, const char *path, lzt_place *out)
{
    (void)path;
    *out = (lzt_place){true, true, of(facts)->may_write, of(facts)->owner};
    return 0;
}

static int direct_io(const lzt_facts *facts, const char *directory)
{
    (void)directory;
    return of(facts)->direct_rc;
}

static int io_uring(const lzt_facts *facts)
{
    return of(facts)->uring_rc;
}

static int clock_source(const lzt_facts *facts, char *name, size_t size)
{
    snprintf(name, size, "%s", of(facts)->clock);
    return 0;
}

static int locks(const lzt_facts *facts, const char *directory, lzt_lock_fn *found, void *arg)
{
    if (!strcmp(directory, "out") && of(facts)->stale) found(arg, of(facts)->stale, false);
    if (!strcmp(directory, "out") && of(facts)->held) found(arg, of(facts)->held, true);
    return 0;
}

static int gds(const lzt_facts *facts)
{
    return of(facts)->gds_rc;
}

static machine healthy(void)
{
    return (machine){.facts = {user, memlock, memory, filesystem, place, direct_io, io_uring, clock_source, locks, gds},
                     .owner = 1000,
                     .memlock_bytes = UINT64_MAX,
                     .total_bytes = 64 * GIB,
                     .available_bytes = 60 * GIB,
                     .free_bytes = 500 * GIB,
                     .may_write = true,
                     .clock = "tsc"};
}

static const lzt_needs needs = {.output_dir = "out",
                                .spill_dir = "spill",
                                .memory_bytes = 32 * GIB,
                                .locked_bytes = 16 * GIB,
                                .output_bytes = 100 * GIB,
                                .spill_bytes = 40 * GIB,
                                .wants_uring = true};

static const lzt_check *find(const lzt_checks *checks, const char *name)
{
    for (int i = 0; i < checks->count; i++)
        if (!strcmp(checks->check[i].name, name)) return &checks->check[i];
    fail_msg("no check %s", name);
    return NULL;
}

/* The check of that name alone objects, so, with this text in its detail and this one in its fix. */
static void expect(const machine *m, const lzt_needs *n, const char *name, lzt_verdict verdict, lzt_status status,
                   const char *detail, const char *fix)
{
    lzt_checks checks = {0};
    lzt_doctor_machine(&m->facts, n, &checks);
    assert_int_equal(checks.count, 10);
    for (int i = 0; i < checks.count; i++) {
        const lzt_check *c = &checks.check[i];
        assert_true(c->detail[0]);
        bool objects = !strcmp(c->name, name);
        if (c->verdict != (objects ? verdict : LZT_VERDICT_OK))
            fail_msg("%s: verdict %d, %s", c->name, (int)c->verdict, c->detail);
        assert_int_equal(c->status, objects ? status : LZT_OK);
        assert_int_equal(c->fix[0] != 0, objects);
    }
    if (!name[0]) return;
    assert_non_null(strstr(find(&checks, name)->detail, detail));
    assert_non_null(strstr(find(&checks, name)->fix, fix));
}

static void a_healthy_machine_is_not_blamed(void **state)
{
    (void)state;
    const machine m = healthy();
    const lzt_needs none = {0};
    expect(&m, &needs, "", LZT_VERDICT_OK, LZT_OK, "", "");
    expect(&m, &none, "", LZT_VERDICT_OK, LZT_OK, "", "");
}

static void locked_memory(void **state)
{
    (void)state;
    machine m = healthy();
    const lzt_needs none = {0};
    m.memlock_bytes = 64 << 10;
    expect(&m, &needs, "memlock", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "64 KiB of memory may be locked, 16 GiB",
           "ulimit -l");
    expect(&m, &none, "memlock", LZT_VERDICT_WARN, LZT_OK, "64 KiB", "ulimit -l");
    m.memlock_bytes = needs.locked_bytes;
    expect(&m, &needs, "", LZT_VERDICT_OK, LZT_OK, "", "");
    m.memlock_bytes--;
    expect(&m, &needs, "memlock", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "", "");
}

static void no_direct_io(void **state)
{
    (void)state;
    machine m = healthy();
    m.direct_rc = -EINVAL;
    expect(&m, &needs, "o_direct", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "spill (ext4) does not take O_DIRECT",
           "ext4 or xfs");
}

static void full_disk(void **state)
{
    (void)state;
    machine m = healthy();
    m.free_bytes = 140 * GIB; /* both places are on one filesystem: their needs add up */
    expect(&m, &needs, "", LZT_VERDICT_OK, LZT_OK, "", "");
    m.free_bytes--;
    expect(&m, &needs, "disk_space", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "140 GiB are needed", "output_dir");
    m.free_bytes = 0;
    const lzt_needs none = {0};
    expect(&m, &none, "disk_space", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "0 B are free", "free space");
}

static void spill_in_memory(void **state)
{
    (void)state;
    machine m = healthy();
    m.spill_is_memory = true;
    expect(&m, &needs, "tmpfs", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "spill is on tmpfs, which is memory", "NVMe drive");
}

static void wrong_owner(void **state)
{
    (void)state;
    machine m = healthy();
    m.owner = 0;
    expect(&m, &needs, "owner", LZT_VERDICT_WARN, LZT_OK, "out belongs to user 0, this is user 1000",
           "chown -R 1000 out");
    m.may_write = false;
    expect(&m, &needs, "owner", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "may not be written by user 1000",
           "chown -R 1000 out");
}

static void left_locks(void **state)
{
    (void)state;
    machine m = healthy();
    m.stale = "out/checkpoints/.step-3.tmp-77";
    expect(&m, &needs, "lock", LZT_VERDICT_WARN, LZT_OK, "out/checkpoints/.step-3.tmp-77 is a stale lock", "rm -r");
    m.held = "out/lock";
    expect(&m, &needs, "lock", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "out/lock is held by a program that runs", "wait");
}

static void too_small_memory(void **state)
{
    (void)state;
    machine m = healthy();
    m.available_bytes = 16 * GIB;
    expect(&m, &needs, "ram", LZT_VERDICT_WARN, LZT_OK, "16 GiB are available now", "end other programs");
    m.total_bytes = 32 * GIB - 1;
    expect(&m, &needs, "ram", LZT_VERDICT_FAIL, LZT_ERR_NO_PLAN, "32 GiB are needed", "memory.host_cap");
}

static void no_io_uring(void **state)
{
    (void)state;
    machine m = healthy();
    lzt_needs automatic = needs;
    automatic.wants_uring = false;
    m.uring_rc = -EPERM;
    expect(&m, &needs, "io_uring", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "no ring can be made", "seccomp");
    expect(&m, &automatic, "io_uring", LZT_VERDICT_WARN, LZT_OK, "threads would do", "io_uring_disabled=0");
    m.uring_rc = -ENOSYS;
    expect(&m, &needs, "io_uring", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "no ring can be made", "Linux 5.6");
}

static void slow_clock(void **state)
{
    (void)state;
    machine m = healthy();
    m.clock = "hpet";
    expect(&m, &needs, "clock_source", LZT_VERDICT_WARN, LZT_OK, "hpet", "clocksource=tsc");
}

static void gds_without_its_module(void **state)
{
    (void)state;
    machine m = healthy();
    m.gds_rc = -ENOENT;
    expect(&m, &needs, "gds", LZT_VERDICT_WARN, LZT_OK, "without nvidia-fs", "modprobe nvidia-fs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_machine_is_not_blamed),
        cmocka_unit_test(locked_memory),
        cmocka_unit_test(no_direct_io),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(spill_in_memory),
        cmocka_unit_test(wrong_owner),
        cmocka_unit_test(left_locks),
        cmocka_unit_test(too_small_memory),
        cmocka_unit_test(no_io_uring),
        cmocka_unit_test(slow_clock),
        cmocka_unit_test(gds_without_its_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
