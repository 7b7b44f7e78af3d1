/* Resident memory: see resident.h. */
#include "base/resident.h"

#include "base/os.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t lzt__resident_bytes(void)
{
    const lzt_os *os = lzt__os_posix();
    char text[128];
    int fd = os->openat(os, AT_FDCWD, "/proc/self/statm", O_RDONLY, 0);
    if (fd < 0) return 0;
    int64_t n = os->pread(os, fd, text, sizeof text - 1, 0);
    os->close(os, fd);
    if (n <= 0) return 0;
    text[n] = 0;
    char *second;
    strtoull(text, &second, 10);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}
