/* The system's answers: see doctor_facts.h. */
#include "cli/doctor_facts.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK = 4096, URING_PARAMS_BYTES = 120 };

static const struct {
    unsigned long magic;
    const char *name;
    bool is_memory, is_network;
} filesystems[] = {
    {0x01021994, "tmpfs", true, false},    {0x858458f6, "ramfs", true, false},  {0xef53, "ext4", false, false},
    {0x58465342, "xfs", false, false},     {0x9123683e, "btrfs", false, false}, {0x2fc12fc1, "zfs", false, false},
    {0x794c7630, "overlay", false, false}, {0x6969, "nfs", false, true},        {0xff534d42, "cifs", false, true},
    {0xfe534d42, "smb2", false, true},     {0x01021997, "9p", false, true},     {0x65735546, "fuse", false, true},
    {0xf2f52010, "f2fs", false, false},    {0x0bd00bd0, "lustre", false, true},
};

/* ---- limits and memory ---- */

static uid_t user(const lzt_facts *facts)
{
    (void)facts;
    return geteuid();
}

static int memlock(const lzt_facts *facts, uint64_t *bytes)
{
    struct rlimit limit;
    (void)facts;
    if (getrlimit(RLIMIT_MEMLOCK, &limit)) return -errno;
    *bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
    return 0;
}

/* The first bytes of a small file of the kernel's, as text. */
static int read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t got = read(fd, text, size - 1);
    int rc = got < 0 ? -errno : 0;
    close(fd);
    text[got < 0 ? 0 : got] = 0;
    text[strcspn(text, "\n")] = 0;
    return rc;
}

/* "MemTotal:  16384 kB" of /proc/meminfo, in bytes; 0 when it is not there. */
static uint64_t meminfo(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* The least limit on the way from the group's folder up to the root of its hierarchy. */
static uint64_t group_limit(const char *root, const char *group, const char *file)
{
    char folder[2048], path[2200], text[64];
    uint64_t least = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s", group);
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", root, folder, file);
        bool limited = !read_small(path, text, sizeof text) && strspn(text, "0123456789");
        uint64_t limit = limited ? strtoull(text, NULL, 10) : UINT64_MAX;
        if (limit < least) least = limit;
        char *slash = strrchr(folder, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Of this process's control group: version 2 ("0::/a/b"), or version 1 ("9:memory:/a/b"). */
static uint64_t control_group_limit(void)
{
    char *line = NULL;
    size_t size = 0;
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        const char *memory = strstr(line, ":memory:");
        uint64_t limit = UINT64_MAX;
        if (!strncmp(line, "0::", 3)) limit = group_limit("/sys/fs/cgroup", line + 3, "memory.max");
        if (memory) limit = group_limit("/sys/fs/cgroup/memory", memory + 8, "memory.limit_in_bytes");
        if (limit < least) least = limit;
    }
    if (file) fclose(file);
    free(line);
    return least;
}

static uint64_t address_space_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static int memory(const lzt_facts *facts, uint64_t *total_bytes, uint64_t *available_bytes)
{
    char *text = NULL;
    (void)facts;
    FILE *file = fopen("/proc/meminfo", "re");
    size_t size = 0;
    if (!file) return -errno;
    ssize_t got = getdelim(&text, &size, 0, file);
    fclose(file);
    *total_bytes = got > 0 ? meminfo(text, "MemTotal:") : 0;
    *available_bytes = got > 0 ? meminfo(text, "MemAvailable:") : 0;
    free(text);
    uint64_t limit = control_group_limit(), address_space = address_space_limit();
    if (address_space < limit) limit = address_space;
    if (limit < *total_bytes) *total_bytes = limit;
    if (limit < *available_bytes) *available_bytes = limit;
    return *total_bytes ? 0 : -ENODATA;
}

/* ---- places ---- */

/* path, or its nearest parent that exists. */
static void nearest(const char *path, char *out, size_t size)
{
    struct stat st;
    snprintf(out, size, "%s", path);
    while (stat(out, &st)) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            snprintf(out, size, ".");
            return;
        }
        slash[slash == out] = 0;
        if (slash == out) return;
    }
}

static int filesystem(const lzt_facts *facts, const char *path, lzt_filesystem *out)
{
    struct statfs fs;
    struct stat st;
    (void)facts;
    *out = (lzt_filesystem){.name = ""};
    nearest(path, out->nearest, sizeof out->nearest);
    if (statfs(out->nearest, &fs) || stat(out->nearest, &st)) return -errno;
    out->id = st.st_dev;
    out->free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    for (size_t i = 0; i < sizeof filesystems / sizeof *filesystems; i++) {
        if (filesystems[i].magic != ((unsigned long)fs.f_type & 0xffffffffUL)) continue;
        out->name = filesystems[i].name;
        out->is_memory = filesystems[i].is_memory;
        out->is_network = filesystems[i].is_network;
    }
    return 0;
}

static int place(const lzt_facts *facts, const char *path, lzt_place *out)
{
    struct stat st;
    char at[1024];
    (void)facts;
    *out = (lzt_place){0};
    nearest(path, at, sizeof at);
    out->may_write = !faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS);
    if (stat(path, &st)) return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    out->exists = true;
    out->is_directory = S_ISDIR(st.st_mode);
    out->owner = st.st_uid;
    return 0;
}

static int direct_io(const lzt_facts *facts, const char *directory)
{
    char at[1024], path[1100];
    void *block = NULL;
    (void)facts;
    nearest(directory, at, sizeof at);
    snprintf(path, sizeof path, "%s/.lazytrain-doctor-%ld", at, (long)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    int rc = direct < 0 ? -errno : 0;
    unlink(path);
    close(fd);
    if (rc) return rc;
    if (posix_memalign(&block, BLOCK, BLOCK)) rc = -ENOMEM;
    if (!rc) memset(block, 0, BLOCK);
    if (!rc && pwrite(direct, block, BLOCK, 0) != BLOCK) rc = errno ? -errno : -EIO;
    close(direct);
    free(block);
    return rc;
}

/* ---- locks ---- */

static bool is_lock_name(const char *name)
{
    size_t length = strlen(name);
    return !strcasecmp(name, "lock") || (length >= 5 && !strcasecmp(name + length - 5, ".lock"));
}

/* ".NAME.tmp-PID": what a writer holds locked while it fills it (base/staging.h). */
static bool is_staging_name(const char *name)
{
    const char *mark = strstr(name, ".tmp-");
    return *name == '.' && mark && mark > name && mark[5] && strspn(mark + 5, "0123456789") == strlen(mark + 5);
}

typedef struct lock_search {
    const char *directory;
    lzt_lock_fn *found;
    void *arg;
    int depth; /* folders below directory that are still looked into */
} lock_search;

static int find_locks(const lock_search *search);

static int look_at(void *arg, const char *name)
{
    const lock_search *s = arg;
    char path[2048];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", s->directory, name);
    if (lstat(path, &st)) return 0;
    bool is_lock = S_ISREG(st.st_mode) ? is_lock_name(name) : S_ISDIR(st.st_mode) && is_staging_name(name);
    if (!is_lock) {
        const lock_search below = {path, s->found, s->arg, s->depth - 1};
        return S_ISDIR(st.st_mode) && s->depth > 0 ? find_locks(&below) : 0;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return 0;
    s->found(s->arg, path, flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    close(fd);
    return 0;
}

static int find_locks(const lock_search *search)
{
    const lzt_os *os = lzt__os_posix();
    int fd = os->openat(os, AT_FDCWD, search->directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT || fd == -ENOTDIR) return 0;
    if (fd < 0) return fd;
    int rc = os->list(os, fd, look_at, (void *)(uintptr_t)search);
    os->close(os, fd);
    return rc;
}

static int locks(const lzt_facts *facts, const char *directory, lzt_lock_fn *found, void *arg)
{
    const lock_search search = {directory, found, arg, 1};
    (void)facts;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) found(arg, directory, true); /* of a run */
    if (fd >= 0) close(fd);
    return find_locks(&search);
}

/* ---- the kernel ---- */

static int io_uring(const lzt_facts *facts)
{
    char params[URING_PARAMS_BYTES] = {0};
    (void)facts;
#ifdef SYS_io_uring_setup
    long fd = syscall(SYS_io_uring_setup, 1, params);
    if (fd < 0) return -errno;
    close((int)fd);
    return 0;
#else
    (void)params;
    return -ENOSYS;
#endif
}

static int clock_source(const lzt_facts *facts, char *name, size_t size)
{
    (void)facts;
    return read_small("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, size);
}

static int gds(const lzt_facts *facts)
{
    (void)facts;
    if (access("/proc/driver/nvidia", F_OK)) return 0;
    return access("/proc/driver/nvidia-fs", F_OK) ? -ENOENT : 0;
}

const lzt_facts *lzt__facts_system(void)
{
    static const lzt_facts facts = {user,      memlock,  memory,       filesystem, place,
                                    direct_io, io_uring, clock_source, locks,      gds};
    return &facts;
}
