/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of image identities and the asking of etwd-image (images.h). Loop thread only.
 *
 * An entry is in one of five states:
 *
 *   queued   somebody asked, the request has not been sent        in `queue`, waiters > 0
 *   sent     etwd-image has it                                    in `flight`, in order of sending
 *   telling  answered, its waiters are being told                 in no list
 *   known    answered                                             in `lru`
 *   none     answered "no data", for good or until `expires`      in `lru`
 *
 * At most ETW_IMAGE_IN_FLIGHT_MAX requests are under way, so that the socket always has room and
 * sending never has to wait; each answer lets the next one go. Every waiter also stands in one list
 * by age, the timer runs for the oldest: all wait equally long.
 */
#include "kernel/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "io/loop.h"

#define BUCKETS 8192 /* a power of two; half the entries at most, chains stay short */
#define NSEC_PER_MSEC 1000000ULL

struct waiter {
    TAILQ_ENTRY(waiter) of_entry;
    TAILQ_ENTRY(waiter) by_age;
    struct entry *entry;
    uint64_t deadline;
    images_done_fn done;
    void *userdata;
};
TAILQ_HEAD(waiter_list, waiter);

enum entry_state { ENTRY_QUEUED, ENTRY_SENT, ENTRY_TELLING, ENTRY_KNOWN, ENTRY_NONE };

struct entry {
    LIST_ENTRY(entry) bucket;
    TAILQ_ENTRY(entry) list; /* queue, flight or lru */
    struct image_key key;
    enum entry_state state;
    uint64_t expires; /* CLOCK_BOOTTIME; UINT64_MAX: holds for good */
    struct image_identity identity;
    struct waiter_list waiters;

    /* Queued and sent: */
    uint64_t id;
    uint64_t give_up; /* etwd-image is dead if it has not answered by then */
    int pid;
    uint64_t start;
    uint64_t end;
    char *path;
};
TAILQ_HEAD(entry_list, entry);
LIST_HEAD(entry_bucket, entry);

struct images {
    struct loop *loop;
    int fd;      /* -1: no helper */
    bool failed; /* the socket failed inside images_lookup(); the timer tells */
    struct loop_watch *watch;
    struct loop_timer *timer;
    uint64_t armed; /* what the timer is set to; UINT64_MAX: not */
    uint64_t timeout_ns;
    uint64_t next_id;
    uint64_t hash_seed[2];

    struct entry_bucket buckets[BUCKETS];
    struct entry_list queue;
    struct entry_list flight;
    struct entry_list lru; /* the most recently used one last */
    struct waiter_list waiters;
    unsigned n_queued;
    unsigned n_flight;
    unsigned n_lru;
    unsigned n_waiters;
};

static const struct image_identity unknown = {0};

/* Users choose inode numbers and times, so the seeds are secret. */
static struct entry_bucket *bucket_of(struct images *i, const struct image_key *key)
{
    const uint64_t words[] = {
        (uint64_t) key->dev_major << 32 | key->dev_minor,
        key->inode,
        key->change_time_ns,
    };
    uint64_t h = i->hash_seed[0];

    for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
        unsigned __int128 product = (unsigned __int128) (words[w] ^ h) * (i->hash_seed[1] | 1) + h;
        h = (uint64_t) product ^ (uint64_t) (product >> 64);
    }
    return &i->buckets[(h ^ (h >> 32)) & (BUCKETS - 1)];
}

static bool key_equal(const struct image_key *a, const struct image_key *b)
{
    return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor && a->inode == b->inode &&
           a->change_time_ns == b->change_time_ns;
}

static struct entry *find_entry(struct images *i, const struct image_key *key)
{
    struct entry *e;

    for (e = LIST_FIRST(bucket_of(i, key)); e; e = LIST_NEXT(e, bucket))
        if (key_equal(&e->key, key))
            break;
    return e;
}

/* e is in no list but its bucket. */
static void free_entry(struct entry *e)
{
    LIST_REMOVE(e, bucket);
    free(e->path);
    free(e);
}

/* Told to all: e becomes the most recently used one; the least recently used makes room. */
static void keep_entry(struct images *i, struct entry *e)
{
    e->state = e->identity.known ? ENTRY_KNOWN : ENTRY_NONE;
    free(e->path);
    e->path = NULL;
    TAILQ_INSERT_TAIL(&i->lru, e, list);
    i->n_lru++;
    if (i->n_lru > ETW_IMAGE_CACHE_MAX) {
        struct entry *old = TAILQ_FIRST(&i->lru);

        TAILQ_REMOVE(&i->lru, old, list);
        i->n_lru--;
        free_entry(old);
    }
}

/* Takes the waiter out of both lists and calls it. */
static void answer_waiter(struct images *i, struct waiter *w, const struct image_identity *id)
{
    TAILQ_REMOVE(&w->entry->waiters, w, of_entry);
    TAILQ_REMOVE(&i->waiters, w, by_age);
    i->n_waiters--;
    w->done(id, w->userdata);
    free(w);
}

static void arm_timer(struct images *i)
{
    struct waiter *w = TAILQ_FIRST(&i->waiters);
    struct entry *e = TAILQ_FIRST(&i->flight);
    uint64_t at = UINT64_MAX;

    if (i->failed)
        at = etw_clock_boottime();
    if (w && w->deadline < at)
        at = w->deadline;
    if (e && e->give_up < at)
        at = e->give_up;
    if (at == i->armed)
        return;
    i->armed = at;
    if (at == UINT64_MAX)
        loop_timer_disarm(i->timer);
    else if (loop_timer_arm(i->timer, at) < 0)
        log_warning("image helper: a timer could not be set; image events may wait longer");
}

/* The helper is gone: nobody is asked any more, everybody who waits is told. */
static void helper_gone(struct images *i, const char *why)
{
    struct entry *e;

    log_warning("image helper: %s; images come without build-id and exact load address until etwd "
                "is started again",
                why);
    i->watch = loop_watch_free(i->watch);
    i->fd = safe_close(i->fd);
    i->failed = false;

    while (!TAILQ_EMPTY(&i->waiters))
        answer_waiter(i, TAILQ_FIRST(&i->waiters), &unknown);
    while ((e = TAILQ_FIRST(&i->flight))) {
        TAILQ_REMOVE(&i->flight, e, list);
        free_entry(e);
    }
    while ((e = TAILQ_FIRST(&i->queue))) {
        TAILQ_REMOVE(&i->queue, e, list);
        free_entry(e);
    }
    i->n_flight = 0;
    i->n_queued = 0;
    arm_timer(i);
}

/* 0; -errno: the socket has failed. */
static int send_request(struct images *i, const struct entry *e)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct image_request req = {
        .protocol = IMAGE_PROTOCOL,
        .path_size = e->path ? (uint32_t) strlen(e->path) : 0,
        .id = e->id,
        .start = e->start,
        .end = e->end,
        .dev_major = e->key.dev_major,
        .dev_minor = e->key.dev_minor,
        .inode = e->key.inode,
        .pid = e->pid,
    };
    struct iovec iov[2] = {
        {.iov_base = &req, .iov_len = sizeof(req)},
        {.iov_base = e->path, .iov_len = req.path_size},
    };
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
    _cleanup_close_ int pidfd = -1;

    /* Too late for a process that is gone; the path may still lead there. */
    if (e->pid > 0)
        pidfd = (int) syscall(SYS_pidfd_open, e->pid, 0);
    if (pidfd >= 0) {
        struct cmsghdr *c;

        req.has_pidfd = 1;
        mh.msg_control = &control;
        mh.msg_controllen = sizeof(control);
        c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pidfd, sizeof(pidfd));
    }
    return sendmsg(i->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Sends what waits, up to the limit. -errno: the socket has failed. */
static int send_queue(struct images *i)
{
    struct entry *e;
    int r;

    while (i->n_flight < ETW_IMAGE_IN_FLIGHT_MAX && (e = TAILQ_FIRST(&i->queue))) {
        r = send_request(i, e);
        if (r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM || r == -ETOOMANYREFS) {
            /* The next answer tries again. With none under way there would be no next answer. */
            if (i->n_flight > 0)
                return 0;
            return r;
        }
        if (r < 0)
            return r;
        TAILQ_REMOVE(&i->queue, e, list);
        i->n_queued--;
        e->state = ENTRY_SENT;
        e->give_up = etw_clock_boottime() + ETW_IMAGE_HELPER_MS * NSEC_PER_MSEC;
        TAILQ_INSERT_TAIL(&i->flight, e, list);
        i->n_flight++;
    }
    return 0;
}

/* Whether an answer "no data" can change for the same file at the same change time. */
static bool final_refusal(int status)
{
    return status == -ENOEXEC;
}

static void take_reply(struct images *i, struct entry *e, const struct image_reply *rep)
{
    uint64_t soon = etw_clock_boottime() + ETW_IMAGE_NEGATIVE_MS * NSEC_PER_MSEC;

    TAILQ_REMOVE(&i->flight, e, list);
    i->n_flight--;
    e->state = ENTRY_TELLING;
    if (rep->status == 0) {
        e->identity.known = true;
        e->identity.first_vaddr = rep->first_vaddr;
        e->identity.span = rep->span;
        e->identity.exec_vaddr = rep->exec_vaddr;
        e->identity.exec_offset = rep->exec_offset;
        e->identity.build_id_size = rep->build_id_size;
        memcpy(e->identity.build_id, rep->build_id, rep->build_id_size);
        /* A file that was changed since the probe saw it (unlinked, say): this is what it holds
         * now, and so what the mapping shows; but the key stands for something older. */
        e->expires = rep->change_time_ns == e->key.change_time_ns ? UINT64_MAX : soon;
    } else
        e->expires = final_refusal(rep->status) ? UINT64_MAX : soon;
    while (!TAILQ_EMPTY(&e->waiters))
        answer_waiter(i, TAILQ_FIRST(&e->waiters), &e->identity);
    keep_entry(i, e);
}

/* One packet. 1 when there was one, 0 when none is there, -errno. */
static int receive_reply(struct images *i)
{
    struct image_reply rep;
    struct entry *e;
    ssize_t n;

    n = recv(i->fd, &rep, sizeof(rep), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    if (n != sizeof(rep) || rep.protocol != IMAGE_PROTOCOL || rep.status > 0 ||
        rep.build_id_size > IMAGE_BUILD_ID_MAX)
        return -EBADMSG;
    for (e = TAILQ_FIRST(&i->flight); e; e = TAILQ_NEXT(e, list))
        if (e->id == rep.id) {
            take_reply(i, e, &rep);
            return 1;
        }
    return -EBADMSG;
}

static void on_ready(int fd, uint32_t revents, void *userdata)
{
    struct images *i = userdata;
    int r;

    do
        r = receive_reply(i);
    while (r > 0);
    if (r == 0)
        r = send_queue(i);
    if (r == -ECONNRESET || r == -EPIPE)
        helper_gone(i, "etwd-image ended");
    else if (r == -EBADMSG)
        helper_gone(i, "etwd-image sent something that is no answer");
    else if (r < 0)
        helper_gone(i, strerror(-r));
    else
        arm_timer(i);
}

static void on_timer(void *userdata)
{
    struct images *i = userdata;
    uint64_t now = etw_clock_boottime();
    struct waiter *w;
    struct entry *e;

    i->armed = UINT64_MAX;
    if (i->failed) {
        helper_gone(i, "the socket to etwd-image failed");
        return;
    }
    e = TAILQ_FIRST(&i->flight);
    if (e && now >= e->give_up) {
        helper_gone(i, "etwd-image does not answer");
        return;
    }
    while ((w = TAILQ_FIRST(&i->waiters)) && now >= w->deadline) {
        e = w->entry;
        answer_waiter(i, w, &unknown);
        /* Nobody waits for it any more and nobody has been asked. */
        if (e->state == ENTRY_QUEUED && TAILQ_EMPTY(&e->waiters)) {
            TAILQ_REMOVE(&i->queue, e, list);
            i->n_queued--;
            free_entry(e);
        }
    }
    arm_timer(i);
}

int images_new(struct loop *l, const struct etw_conf *conf, int image_fd, struct images **ret)
{
    struct images *i;
    int r;

    i = calloc(1, sizeof(*i));
    if (!i)
        return -ENOMEM;
    i->loop = l;
    i->fd = -1;
    i->armed = UINT64_MAX;
    i->timeout_ns = conf->image_timeout_ms * NSEC_PER_MSEC;
    TAILQ_INIT(&i->queue);
    TAILQ_INIT(&i->flight);
    TAILQ_INIT(&i->lru);
    TAILQ_INIT(&i->waiters);
    if (getrandom(i->hash_seed, sizeof(i->hash_seed), 0) != sizeof(i->hash_seed)) {
        r = -EIO;
        goto fail;
    }
    r = loop_timer_new(l, on_timer, i, &i->timer);
    if (r < 0)
        goto fail;
    if (image_fd >= 0) {
        r = loop_watch_new(l, image_fd, POLLIN, on_ready, i, &i->watch);
        if (r < 0)
            goto fail;
        i->fd = image_fd;
    }
    *ret = i;
    return 0;
fail:
    images_free(i);
    return r;
}

struct images *images_free(struct images *i)
{
    struct entry_list *lists[3];

    if (!i)
        return NULL;
    i->watch = loop_watch_free(i->watch);
    i->fd = safe_close(i->fd);
    while (!TAILQ_EMPTY(&i->waiters))
        answer_waiter(i, TAILQ_FIRST(&i->waiters), &unknown);
    lists[0] = &i->queue;
    lists[1] = &i->flight;
    lists[2] = &i->lru;
    for (size_t n = 0; n < ARRAY_SIZE(lists); n++) {
        struct entry *e;

        while ((e = TAILQ_FIRST(lists[n]))) {
            TAILQ_REMOVE(lists[n], e, list);
            free_entry(e);
        }
    }
    loop_timer_free(i->timer);
    free(i);
    return NULL;
}

bool images_available(const struct images *i)
{
    return i->fd >= 0 && !i->failed;
}

/* A cached answer that still holds: 1 and *ret. 0: it has expired, and is forgotten. */
static int use_cached(struct images *i, struct entry *e, struct image_identity *ret)
{
    TAILQ_REMOVE(&i->lru, e, list);
    if (e->expires != UINT64_MAX && etw_clock_boottime() >= e->expires) {
        i->n_lru--;
        free_entry(e);
        return 0;
    }
    TAILQ_INSERT_TAIL(&i->lru, e, list);
    *ret = e->identity;
    return 1;
}

static int new_entry(struct images *i, const struct image_key *key, int pid, uint64_t start,
                     uint64_t end, const char *path, struct entry **ret)
{
    struct entry *e;

    e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    if (path && path[0] == '/' && strlen(path) <= IMAGE_PATH_MAX) {
        e->path = strdup(path);
        if (!e->path) {
            free(e);
            return -ENOMEM;
        }
    }
    e->key = *key;
    e->state = ENTRY_QUEUED;
    e->id = ++i->next_id;
    e->pid = pid;
    e->start = start;
    e->end = end;
    TAILQ_INIT(&e->waiters);
    LIST_INSERT_HEAD(bucket_of(i, key), e, bucket);
    TAILQ_INSERT_TAIL(&i->queue, e, list);
    i->n_queued++;
    *ret = e;
    return 0;
}

int images_lookup(struct images *i, const struct image_key *key, int pid, uint64_t start,
                  uint64_t end, const char *path, images_done_fn done, void *userdata,
                  struct image_identity *ret)
{
    struct waiter *w;
    struct entry *e;
    int r;

    e = find_entry(i, key);
    if (e && e->state == ENTRY_TELLING) { /* called by one of those who are being told */
        *ret = e->identity;
        return 1;
    }
    if (e && (e->state == ENTRY_KNOWN || e->state == ENTRY_NONE)) {
        if (use_cached(i, e, ret))
            return 1;
        e = NULL;
    }
    if (!images_available(i) || start >= end || i->n_waiters >= ETW_IMAGE_WAITERS_MAX ||
        (!e && i->n_queued >= ETW_IMAGE_QUEUE_MAX)) {
        *ret = unknown;
        return 1;
    }

    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    if (!e) {
        r = new_entry(i, key, pid, start, end, path, &e);
        if (r < 0) {
            free(w);
            return r;
        }
    }
    w->entry = e;
    w->deadline = etw_clock_boottime() + i->timeout_ns;
    w->done = done;
    w->userdata = userdata;
    TAILQ_INSERT_TAIL(&e->waiters, w, of_entry);
    TAILQ_INSERT_TAIL(&i->waiters, w, by_age);
    i->n_waiters++;

    if (e->state == ENTRY_QUEUED && send_queue(i) < 0)
        i->failed = true;
    arm_timer(i);
    return 0;
}

static void place_unknown(uint64_t start, uint64_t end, uint64_t offset, uint64_t *ret_base,
                          uint64_t *ret_size)
{
    uint64_t base = offset < start ? start - offset : start;

    *ret_base = base;
    *ret_size = end > base ? end - base : 0;
}

void image_place(const struct image_identity *id, uint64_t start, uint64_t end, uint64_t offset,
                 uint64_t *ret_base, uint64_t *ret_size)
{
    uint64_t vaddr, base, top;

    if (!id->known) {
        place_unknown(start, end, offset, ret_base, ret_size);
        return;
    }
    /* Where the file wants the byte at `offset`; the difference to `start` moves all of it. The
     * arithmetic wraps as the loader's does; what it gives must contain the mapping. */
    vaddr = id->exec_vaddr + (offset - id->exec_offset);
    base = start - vaddr + id->first_vaddr;
    if (base > start || __builtin_add_overflow(base, id->span, &top) || top < end) {
        place_unknown(start, end, offset, ret_base, ret_size);
        return;
    }
    *ret_base = base;
    *ret_size = id->span;
}
