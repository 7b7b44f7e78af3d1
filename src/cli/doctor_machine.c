/* What the machine has for a run: see doctor.h. Each check asks the facts, compares with the needs, and names a way
 * out. */
#include "cli/doctor.h"

#include "base/units.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOCKED_LEAST (8 * LZT_MIB)   /* rings and registered buffers of a drive engine */
#define MEMORY_LEAST (512 * LZT_MIB) /* the program, a small model, and its data */
#define SPACE_LEAST  LZT_GIB         /* metrics, and a small model's checkpoints */

lzt_check *lzt_checks_add(lzt_checks *checks, const char *name, lzt_verdict verdict, lzt_status status,
                          const char *detail_format, ...)
{
    va_list args;
    assert(checks->count < LZT_CHECKS_MAX);
    lzt_check *c = &checks->check[checks->count++];
    *c = (lzt_check){.name = name, .verdict = verdict, .status = verdict == LZT_VERDICT_FAIL ? status : LZT_OK};
    va_start(args, detail_format);
    vsnprintf(c->detail, sizeof c->detail, detail_format, args);
    va_end(args);
    return c;
}

void lzt_check_fix(lzt_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check->fix, sizeof check->fix, format, args);
    va_end(args);
}

static const char *output_dir(const lzt_needs *n)
{
    return n->output_dir ? n->output_dir : ".";
}

/* ---- memory ---- */

static void check_memlock(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    uint64_t have, need = n->locked_bytes ? n->locked_bytes : LOCKED_LEAST;
    char a[LZT_UNITS_TEXT], b[LZT_UNITS_TEXT];
    int rc = f->memlock(f, &have);
    if (rc < 0) {
        lzt_checks_add(out, "memlock", LZT_VERDICT_WARN, LZT_OK, "the limit is not known: %s", strerror(-rc));
        return;
    }
    if (have >= need) {
        lzt_checks_add(out, "memlock", LZT_VERDICT_OK, LZT_OK, "%s may be locked",
                       have == UINT64_MAX ? "any amount" : lzt__units_format_bytes(have, a));
        return;
    }
    lzt_check *c = lzt_checks_add(out, "memlock", n->locked_bytes ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN,
                                  LZT_ERR_STORAGE, "%s of memory may be locked, %s are needed for pinned buffers",
                                  lzt__units_format_bytes(have, a), lzt__units_format_bytes(need, b));
    lzt_check_fix(c, "ulimit -l unlimited; for good: \"* - memlock unlimited\" in /etc/security/limits.conf, "
                     "LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container");
}

static void check_ram(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    uint64_t total = 0, available = 0, need = n->memory_bytes ? n->memory_bytes : MEMORY_LEAST;
    char a[LZT_UNITS_TEXT], b[LZT_UNITS_TEXT];
    int rc = f->memory(f, &total, &available);
    if (rc < 0) {
        lzt_checks_add(out, "ram", LZT_VERDICT_WARN, LZT_OK, "the memory is not known: %s", strerror(-rc));
        return;
    }
    if (available >= need) {
        lzt_checks_add(out, "ram", LZT_VERDICT_OK, LZT_OK, "%s are available, %s are needed",
                       lzt__units_format_bytes(available, a), lzt__units_format_bytes(need, b));
        return;
    }
    bool never = total < need;
    lzt_check *c =
        lzt_checks_add(out, "ram", never ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN, LZT_ERR_NO_PLAN, "%s are needed; %s %s",
                       lzt__units_format_bytes(need, b), lzt__units_format_bytes(never ? total : available, a),
                       never ? "are all that this machine, or its control group, has" : "are available now");
    if (never)
        lzt_check_fix(c, "set memory.host_cap and memory.device_cap to what there is: the plan then says whether it "
                         "fits; or lower per_device_train_batch_size, or raise the container's memory limit");
    else
        lzt_check_fix(c, "end other programs, or set memory.host_cap below what is available");
}

/* ---- the disk ---- */

static void check_disk_space(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    const char *path[] = {output_dir(n), n->spill_dir};
    uint64_t need[] = {n->output_bytes ? n->output_bytes : SPACE_LEAST, n->spill_bytes};
    lzt_filesystem fs[2] = {{.name = ""}, {.name = ""}};
    char a[LZT_UNITS_TEXT], b[LZT_UNITS_TEXT];
    int places = n->spill_dir ? 2 : 1;
    for (int i = 0; i < places; i++) {
        int rc = f->filesystem(f, path[i], &fs[i]);
        if (rc >= 0) continue;
        lzt_checks_add(out, "disk_space", LZT_VERDICT_WARN, LZT_OK, "%s: %s", path[i], strerror(-rc));
        return;
    }
    if (places == 2 && fs[0].id == fs[1].id) need[0] = need[1] = need[0] + need[1];
    for (int i = 0; i < places; i++) {
        if (fs[i].free_bytes >= need[i]) continue;
        bool must = n->output_bytes || n->spill_bytes;
        lzt_check *c =
            lzt_checks_add(out, "disk_space", must || !fs[i].free_bytes ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN,
                           LZT_ERR_STORAGE, "%s: %s are free, %s are needed", path[i],
                           lzt__units_format_bytes(fs[i].free_bytes, a), lzt__units_format_bytes(need[i], b));
        lzt_check_fix(c, i ? "free space on that drive, or name another memory.lazy_nvme_offload_dir"
                           : "free space, name another output_dir, lower save_total_limit or raise save_steps");
        return;
    }
    lzt_checks_add(out, "disk_space", LZT_VERDICT_OK, LZT_OK, "%s: %s are free, %s are needed", path[0],
                   lzt__units_format_bytes(fs[0].free_bytes, a), lzt__units_format_bytes(need[0], b));
}

static void check_tmpfs(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    lzt_filesystem fs = {.name = ""};
    const char *path = n->spill_dir ? n->spill_dir : output_dir(n);
    int rc = f->filesystem(f, path, &fs);
    if (rc < 0 || (!fs.is_memory && !fs.is_network)) {
        lzt_checks_add(out, "tmpfs", LZT_VERDICT_OK, LZT_OK, "%s is on %s", path,
                       fs.name[0] ? fs.name : "a filesystem of unknown kind");
        return;
    }
    lzt_check *c = lzt_checks_add(
        out, "tmpfs", n->spill_dir && fs.is_memory ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN, LZT_ERR_STORAGE,
        fs.is_memory ? "%s is on %s, which is memory: what goes there takes the memory that it should spare"
                     : "%s is on %s, over a network: its speed is not a drive's",
        path, fs.name);
    lzt_check_fix(c, n->spill_dir ? "name a directory on an NVMe drive as memory.lazy_nvme_offload_dir"
                                  : "name a directory on a disk as output_dir");
}

static void check_direct_io(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    const char *path = n->spill_dir ? n->spill_dir : output_dir(n);
    lzt_filesystem fs = {.name = ""};
    int rc = f->direct_io(f, path);
    f->filesystem(f, path, &fs);
    if (rc >= 0) {
        lzt_checks_add(out, "o_direct", LZT_VERDICT_OK, LZT_OK, "%s takes O_DIRECT", path);
        return;
    }
    bool unsupported = rc == -EINVAL || rc == -EOPNOTSUPP;
    lzt_check *c = lzt_checks_add(out, "o_direct", n->spill_dir ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN, LZT_ERR_STORAGE,
                                  unsupported ? "%s (%s) does not take O_DIRECT: reads and writes would go through the "
                                                "page cache (%s)"
                                              : "%s (%s): O_DIRECT could not be tried: %s",
                                  path, fs.name[0] ? fs.name : "unknown filesystem", strerror(-rc));
    lzt_check_fix(c, unsupported ? "use a directory on ext4 or xfs, on a local drive"
                                 : "make the directory writable, or name another");
}

/* ---- who owns what ---- */

/* false: bad, and said. */
static bool check_owner_of(const lzt_facts *f, const char *path, lzt_checks *out)
{
    lzt_place at;
    unsigned me = (unsigned)f->user(f);
    int rc = f->place(f, path, &at);
    lzt_check *c;
    if (rc < 0) {
        c = lzt_checks_add(out, "owner", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "%s: %s", path, strerror(-rc));
        lzt_check_fix(c, "name another directory");
    } else if (at.exists && !at.is_directory) {
        c = lzt_checks_add(out, "owner", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "%s is not a directory", path);
        lzt_check_fix(c, "remove it, or name another directory");
    } else if (!at.may_write) {
        c = lzt_checks_add(out, "owner", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "%s may not be written by user %u%s", path,
                           me, at.exists && at.owner != me ? ": it belongs to another" : "");
        lzt_check_fix(c, "chown -R %u %s, or name another directory", me, path);
    } else if (at.exists && at.owner != me) {
        c = lzt_checks_add(out, "owner", LZT_VERDICT_WARN, LZT_OK,
                           "%s belongs to user %u, this is user %u: files would have mixed owners", path,
                           (unsigned)at.owner, me);
        lzt_check_fix(c, "chown -R %u %s, or run as user %u", me, path, (unsigned)at.owner);
    } else {
        return true;
    }
    return false;
}

static void check_owner(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    char checkpoints[1100];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", output_dir(n));
    if (!check_owner_of(f, output_dir(n), out) || !check_owner_of(f, checkpoints, out)) return;
    if (n->spill_dir && !check_owner_of(f, n->spill_dir, out)) return;
    lzt_checks_add(out, "owner", LZT_VERDICT_OK, LZT_OK, "%s may be written by user %u", output_dir(n),
                   (unsigned)f->user(f));
}

typedef struct lock_list {
    int held, stale;
    char first_held[256], first_stale[256];
} lock_list;

static void note_lock(void *arg, const char *path, bool is_held)
{
    lock_list *list = arg;
    int count = is_held ? list->held++ : list->stale++;
    if (!count) snprintf(is_held ? list->first_held : list->first_stale, sizeof list->first_held, "%s", path);
}

static void check_lock(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    lock_list list = {0};
    lzt_check *c;
    f->locks(f, output_dir(n), note_lock, &list);
    if (n->spill_dir) f->locks(f, n->spill_dir, note_lock, &list);
    if (list.held) {
        c = lzt_checks_add(out, "lock", LZT_VERDICT_FAIL, LZT_ERR_STORAGE, "%s is held by a program that runs",
                           list.first_held);
        lzt_check_fix(c, "wait for it, end it, or name another directory");
    } else if (list.stale) {
        c = lzt_checks_add(out, "lock", LZT_VERDICT_WARN, LZT_OK,
                           "%s is a stale lock: nobody holds it, its owner is gone (%d such)", list.first_stale,
                           list.stale);
        lzt_check_fix(c, "rm -r %s; it is what a killed run left", list.first_stale);
    } else {
        lzt_checks_add(out, "lock", LZT_VERDICT_OK, LZT_OK, "no lock is left in %s", output_dir(n));
    }
}

/* ---- the kernel ---- */

static void check_io_uring(const lzt_facts *f, const lzt_needs *n, lzt_checks *out)
{
    int rc = f->io_uring(f);
    if (rc >= 0) {
        lzt_checks_add(out, "io_uring", LZT_VERDICT_OK, LZT_OK, "a ring can be made");
        return;
    }
    lzt_check *c =
        lzt_checks_add(out, "io_uring", n->wants_uring ? LZT_VERDICT_FAIL : LZT_VERDICT_WARN, LZT_ERR_STORAGE,
                       "no ring can be made (%s); threads would do the reading and writing", strerror(-rc));
    lzt_check_fix(
        c, rc == -ENOSYS
               ? "use Linux 5.6 or later, or memory.io_engine: threads"
               : "sysctl kernel.io_uring_disabled=0, or let the container's seccomp profile pass io_uring_setup; "
                 "or memory.io_engine: threads");
}

/* Those that are read without a system call. */
static bool is_fast_clock(const char *name)
{
    static const char *const fast[] = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page",
                                       "pvclock"};
    for (size_t i = 0; i < sizeof fast / sizeof *fast; i++)
        if (!strcmp(name, fast[i])) return true;
    return false;
}

static void check_clock_source(const lzt_facts *f, lzt_checks *out)
{
    char name[64] = "";
    int rc = f->clock_source(f, name, sizeof name);
    if (rc < 0 || !name[0] || is_fast_clock(name)) {
        lzt_checks_add(out, "clock_source", LZT_VERDICT_OK, LZT_OK, "%s", rc < 0 || !name[0] ? "not known here" : name);
        return;
    }
    lzt_check *c = lzt_checks_add(out, "clock_source", LZT_VERDICT_WARN, LZT_OK,
                                  "%s: every reading of the clock is a system call, and times are coarse", name);
    lzt_check_fix(c, "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource, or boot with "
                     "clocksource=tsc");
}

static void check_gds(const lzt_facts *f, lzt_checks *out)
{
    if (f->gds(f) >= 0) {
        lzt_checks_add(out, "gds", LZT_VERDICT_OK, LZT_OK, "nothing is missing: on the CPU device gds is O_DIRECT");
        return;
    }
    lzt_check *c = lzt_checks_add(out, "gds", LZT_VERDICT_WARN, LZT_OK,
                                  "an NVIDIA driver is loaded without nvidia-fs: cuFile would copy through the host");
    lzt_check_fix(c, "modprobe nvidia-fs, or memory.lazy_nvme_mode: cpu_staging");
}

void lzt_doctor_machine(const lzt_facts *facts, const lzt_needs *needs, lzt_checks *checks)
{
    check_memlock(facts, needs, checks);
    check_ram(facts, needs, checks);
    check_disk_space(facts, needs, checks);
    check_tmpfs(facts, needs, checks);
    check_direct_io(facts, needs, checks);
    check_owner(facts, needs, checks);
    check_lock(facts, needs, checks);
    check_io_uring(facts, needs, checks);
    check_clock_source(facts, checks);
    check_gds(facts, checks);
}
