/* A link of a given rate, imitated by memcpy and sleep.
 *
 * The link keeps the time at which an ideal link would have moved all bytes given to it (free_ns). A copy moves a
 * chunk, then sleeps until the ideal link would be done with it. Sleeping always ends late; as long as copies follow
 * one another the next begins at the ideal time, not at the late one, so that the average rate is exact.
 */
#include "dev/cpu/dev_cpu.h"

#include <assert.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };
#define CREDIT_NS 20e6 /* lateness beyond this is not made up: the copies themselves are slower than the link */

void lzt__cpu_link_init(cpu_link *link, double bytes_per_s)
{
    assert(bytes_per_s >= 0);
    pthread_mutex_init(&link->lock, NULL);
    link->ns_per_byte = bytes_per_s > 0 ? 1e9 / bytes_per_s : 0;
    link->epoch_ns = lzt__clock_ns();
    link->free_ns = 0;
}

void lzt__cpu_link_fini(cpu_link *link)
{
    pthread_mutex_destroy(&link->lock);
}

/* Gives the ideal link another chunk, not before earliest_ns; returns when it will be done (absolute). */
static uint64_t book(cpu_link *link, uint64_t bytes, double earliest_ns)
{
    pthread_mutex_lock(&link->lock);
    double begin = link->free_ns > earliest_ns ? link->free_ns : earliest_ns;
    link->free_ns = begin + (double)bytes * link->ns_per_byte;
    uint64_t done_ns = link->epoch_ns + (uint64_t)link->free_ns;
    pthread_mutex_unlock(&link->lock);
    return done_ns;
}

void lzt__cpu_link_copy(cpu_link *link, void *to, const void *from, uint64_t bytes, bool back_to_back)
{
    if (link->ns_per_byte == 0) {
        memcpy(to, from, bytes);
        return;
    }
    for (uint64_t done = 0; done < bytes;) {
        uint64_t chunk = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        double now = (double)(lzt__clock_ns() - link->epoch_ns);
        uint64_t until = book(link, chunk, back_to_back ? now - CREDIT_NS : now);
        memcpy((char *)to + done, (const char *)from + done, chunk);
        lzt__clock_sleep_until(until);
        done += chunk;
        back_to_back = true;
    }
}
