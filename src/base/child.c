/* A function in a process of its own: see child.h.
 *
 *     parent                                   child
 *     pipe, fork ----------------------------> body(context, answer)
 *     poll the pipe, at most to the deadline <- write answer, _exit(0)
 *     kill it where it is late, waitpid
 *
 * Another thread may fork at the same time and its child inherit our pipe's end for writing, so that the end of the
 * pipe does not always tell that the child has died: that is looked at now and then, too. */
#include "base/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between two looks at whether the child lives. */
enum { LOOK_MS = 50 };

/* ---- the child ---- */

/* The caller's handlers are not the child's: its own death is what a signal means. What the caller ignores, as under
 * nohup or in the background of a script, the child ignores too. */
static void reset_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2};
    const struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void write_all(int fd, const char *bytes, size_t count)
{
    while (count) {
        ssize_t n = write(fd, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(1);
        bytes += n;
        count -= (size_t)n;
    }
}

static _Noreturn void be_child(int fd, pid_t parent, void (*body)(void *context, void *answer), void *context,
                               void *answer, size_t answer_bytes)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it ended before that */
    reset_signals();
    body(context, answer);
    write_all(fd, answer, answer_bytes);
    _exit(0);
}

/* ---- the parent ---- */

/* Until then, at most LOOK_MS; 0: the deadline has passed. */
static int wait_ms(uint64_t deadline_ns)
{
    if (!deadline_ns) return LOOK_MS;
    uint64_t now = lzt__clock_ns();
    if (now >= deadline_ns) return 0;
    uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;
    return left_ms < LOOK_MS ? (int)left_ms : LOOK_MS;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == pid;
}

/* Reads what is there. Returns false at the pipe's end, and when it cannot be read. */
static bool read_some(int fd, char *answer, size_t answer_bytes, size_t *have)
{
    while (*have < answer_bytes) {
        ssize_t n = read(fd, answer + *have, answer_bytes - *have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n <= 0) return false;
        *have += (size_t)n;
    }
    return true;
}

/* The bytes of the answer that came before the child ended or the deadline passed. */
static size_t receive(int fd, pid_t pid, char *answer, size_t answer_bytes, uint64_t deadline_ns, bool *late)
{
    size_t have = 0;
    for (bool ended = false;;) {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        int ms = ended ? 0 : wait_ms(deadline_ns), ready = poll(&event, 1, ms);
        if (ready > 0 && !read_some(fd, answer, answer_bytes, &have)) return have;
        if (have == answer_bytes || (ended && ready == 0)) return have;
        if (ready == 0 && ms == 0) {
            *late = true;
            return have;
        }
        if (ready == 0 && has_ended(pid)) ended = true; /* what it wrote before is still in the pipe */
    }
}

/* Signals that a process brings on itself; the others are sent to it. */
static bool is_fault(int number)
{
    static const int faults[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i] == number) return true;
    return false;
}

/* Who ends a process by each is not told to its parent: the likely ones are named. */
static lzt_status explain_signal(const char *what, int number, lzt_error *err)
{
    if (number == SIGKILL)
        return lzt_fail(err, LZT_ERR_NO_MEMORY, what,
                        "was killed before it answered; the system does so when memory is out");
    if (number == SIGXCPU) return lzt_fail(err, LZT_ERR_NO_MEMORY, what, "used up its limit of CPU time (ulimit -t)");
    if (is_fault(number))
        return lzt_fail(err, LZT_ERR_INTERNAL, what, "crashed with signal %d (%s)", number, strsignal(number));
    return lzt_fail(err, LZT_ERR_INTERRUPTED, what,
                    "was ended by signal %d (%s), which somebody sent to it: a user, a job's manager or the terminal",
                    number, strsignal(number));
}

/* Why there is no answer. */
static lzt_status explain(const char *what, bool waited, int state, lzt_error *err)
{
    if (waited && WIFSIGNALED(state)) return explain_signal(what, WTERMSIG(state), err);
    return lzt_fail(err, LZT_ERR_INTERNAL, what, "ended without an answer");
}

lzt_status lzt__child_run(const char *what, void (*body)(void *context, void *answer), void *context, void *answer,
                          size_t answer_bytes, uint64_t deadline_ns, bool *late, lzt_error *err)
{
    int fd[2], state = 0;
    *late = false;
    if (pipe2(fd, O_CLOEXEC)) return lzt_fail_os(err, LZT_ERR_NO_MEMORY, errno, what, "has no pipe");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) be_child(fd[1], parent, body, context, answer, answer_bytes);
    int code = errno;
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return lzt_fail_os(err, LZT_ERR_NO_MEMORY, code, what, "has no process of its own");
    }
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    size_t have = receive(fd[0], pid, answer, answer_bytes, deadline_ns, late);
    close(fd[0]);
    bool answered = have == answer_bytes;
    if (*late && !has_ended(pid)) kill(pid, SIGKILL);
    pid_t waited;
    do waited = waitpid(pid, &state, 0);
    while (waited < 0 && errno == EINTR);
    if (answered) *late = false;
    return answered || *late ? LZT_OK : explain(what, waited == pid, state, err);
}
