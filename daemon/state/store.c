/* SPDX-License-Identifier: Apache-2.0
 *
 * See state.h and takeover.h: descriptors in the service manager's store, by sd_notify(3)'s
 * protocol. It asks nobody: the manager is silent about what it drops beyond its own limit, so we
 * count. Loop thread only.
 *
 * Names are a letter of the kind and five digits of an index, since systemd passes all names in one
 * string of limited length; what an index means is a block of the state. The order, which a death
 * at any moment leaves in one of its steps:
 *  - stored: the block, then the message. A block without a descriptor is removed at takeover;
 *  - dropped: the block goes, the transaction ends, then the message. A descriptor without a block
 *    is removed at takeover.
 */
#include "takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "internal.h"

#define NAME_STATE "state"
#define NAME_ASIDE "aside"
#define NAME_DIGITS 5
#define INDEX_MAX (36u * 36 * 36 * 36 * 36)
/* Beside those with an index: the state, and one set aside. */
#define OTHERS 2

struct fd_block {
    uint32_t index;
    uint32_t letter;
    uint64_t next_dropped; /* not part of the format */
};

/* What was handed over for an index. */
struct given {
    int fd; /* -1: nothing, or taken */
    char letter;
    bool known; /* the state has a block for it */
};

struct store {
    unsigned long max, count;
    uint8_t *used; /* a bit an index */
    uint32_t n_indexes;
    uint32_t hint;
    uint64_t dropped;    /* blocks, by offset: their messages wait for the commit */
    struct given *given; /* by index; NULL: none */
};

static void name_make(char letter, uint32_t index, char name[8])
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    name[0] = letter;
    for (int i = NAME_DIGITS; i > 0; i--, index /= 36)
        name[i] = digits[index % 36];
    name[NAME_DIGITS + 1] = '\0';
}

static int name_parse(const char *name, char *ret_letter, uint32_t *ret_index)
{
    uint64_t index = 0;
    if (strlen(name) != NAME_DIGITS + 1)
        return -EINVAL;
    for (int i = 1; i <= NAME_DIGITS; i++) {
        if (name[i] >= '0' && name[i] <= '9')
            index = index * 36 + (unsigned) (name[i] - '0');
        else if (name[i] >= 'a' && name[i] <= 'z')
            index = index * 36 + (unsigned) (name[i] - 'a') + 10;
        else
            return -EINVAL;
    }
    *ret_letter = name[0];
    *ret_index = (uint32_t) index;
    return 0;
}

static int tell_store(const char *name, int fd)
{
    char text[64];
    (void) snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
    int r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
    return r < 0 ? r : 0;
}

static void tell_remove(const char *name)
{
    char text[64];
    (void) snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    int r = sd_notify(0, text);
    if (r < 0) /* it stays there, and a successor removes what it does not know */
        log_warning("descriptor store: failed to remove '%s': %s", name, strerror(-r));
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    for (uint32_t i = 0; s->given && i < s->n_indexes; i++)
        (void) safe_close(s->given[i].fd);
    free(s->given);
    free(s->used);
    free(s);
    return NULL;
}

bool state_kept(const struct state *st)
{
    return st && st->store;
}

static bool index_used(const struct store *s, uint32_t i)
{
    return s->used[i / 8] >> (i % 8) & 1;
}

static void index_set(struct store *s, uint32_t i, bool used)
{
    if (used)
        s->used[i / 8] |= (uint8_t) (1u << (i % 8));
    else
        s->used[i / 8] &= (uint8_t) ~(1u << (i % 8));
    s->count += used ? 1UL : -1UL;
}

static int index_take(struct store *s, uint32_t *ret)
{
    if (s->count + OTHERS >= s->max)
        return -EDQUOT;
    for (uint32_t k = 0; k < s->n_indexes; k++) {
        uint32_t i = (s->hint + k) % s->n_indexes;
        if (index_used(s, i))
            continue;
        s->hint = i + 1;
        index_set(s, i, true);
        *ret = i;
        return 0;
    }
    return -EDQUOT;
}

static enum state_kind kind_of(enum state_fd_kind kind)
{
    return (enum state_kind)(STATE_KIND_FD + (unsigned) kind);
}

int state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd)
{
    struct fd_block *b;
    uint32_t index;
    char name[8];
    int r;

    if (!state_kept(st))
        return 0;
    if (state_block_find(st, kind_of(kind), key, NULL))
        return -EEXIST;
    r = index_take(st->store, &index);
    if (r < 0)
        return r;
    state_begin(st);
    r = state_block_new(st, kind_of(kind), key, sizeof(*b), (void **) &b);
    if (r == 0)
        *b = (struct fd_block){.index = index, .letter = (unsigned char) kind};
    state_commit(st);
    if (r < 0) {
        index_set(st->store, index, false);
        return r;
    }
    name_make((char) kind, index, name);
    r = tell_store(name, fd);
    if (r < 0)
        state_fd_drop(st, kind, key);
    return r;
}

void state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key)
{
    if (!state_kept(st))
        return;
    struct fd_block *b = state_block_find(st, kind_of(kind), key, NULL);
    if (!b)
        return;
    state_begin(st);
    b->next_dropped = st->store->dropped;
    st->store->dropped = offset_of(st, b);
    state_block_free(st, b);
    state_commit(st);
}

void store_commit(struct state *st)
{
    struct store *s = st->store;
    while (s && s->dropped) {
        const struct fd_block *b = (const struct fd_block *) (st->base + s->dropped);
        char name[8];
        s->dropped = b->next_dropped;
        name_make((char) b->letter, b->index, name);
        index_set(s, b->index, false);
        tell_remove(name);
    }
}

int state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key)
{
    if (!state_kept(st))
        return -ENOENT;
    const struct fd_block *b = state_block_find(st, kind_of(kind), key, NULL);
    if (!b)
        return -ENOENT;
    struct given *g = st->store->given ? &st->store->given[b->index] : NULL;
    return g && g->fd >= 0 ? take_fd(&g->fd) : -ENOENT;
}

bool state_fd_next(struct state *st, enum state_fd_kind kind, uint64_t *position, uint64_t *ret_key)
{
    return state_block_next(st, kind_of(kind), position, ret_key, NULL) != NULL;
}

/* ---- the start ---- */

static int store_new(unsigned long max, struct store **ret)
{
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->max = max;
    s->n_indexes = max < INDEX_MAX ? (uint32_t) max : INDEX_MAX;
    s->used = calloc(1, s->n_indexes / 8 + 1);
    if (!s->used) {
        free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

static int given_put(struct store *s, int fd, const char *name)
{
    uint32_t index;
    char letter;

    if (name_parse(name, &letter, &index) < 0 || index >= s->n_indexes || s->given[index].fd >= 0)
        return -EINVAL;
    s->given[index] = (struct given){.fd = fd, .letter = letter};
    return 0;
}

/* Each block has its descriptor, and each descriptor its block, or they go. */
static void given_match(struct state *st)
{
    struct store *s = st->store;
    uint64_t position = 0, key;
    uint32_t kind;
    size_t size;

    state_begin(st);
    for (struct fd_block *b;
         (b = blocks_next(st, STATE_KIND_FD, STATE_KIND_FD_LAST, &position, &kind, &key, &size));) {
        struct given *g = size == sizeof(*b) && b->index < s->n_indexes && !index_used(s, b->index)
                              ? &s->given[b->index]
                              : NULL;
        if (!g || g->fd < 0 || b->letter != kind - STATE_KIND_FD || g->letter != (char) b->letter) {
            state_block_free(st, b);
            continue;
        }
        g->known = true;
        index_set(s, b->index, true);
    }
    state_commit(st);
    for (uint32_t i = 0; i < s->n_indexes; i++) {
        struct given *g = &s->given[i];
        char name[8];
        if (g->fd < 0 || g->known)
            continue;
        name_make(g->letter, i, name);
        tell_remove(name);
        g->fd = safe_close(g->fd);
    }
}

static void set_aside(int fd, int r)
{
    log_error("state: that of the etwd before cannot be read: %s; its sessions end here, their "
              "files are as they are (not closed); what it held is kept in the descriptor store "
              "as '%s'",
              r == -EPROTONOSUPPORT ? "another version wrote it"
              : r == -EBADMSG       ? "it does not hold together"
                                    : strerror(-r),
              NAME_ASIDE);
    tell_remove(NAME_ASIDE);
    tell_remove(NAME_STATE);
    if (tell_store(NAME_ASIDE, fd) < 0)
        log_warning("state: it could not be set aside");
    (void) close(fd);
}

static bool is_listening(int fd)
{
    return sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) > 0;
}

/* The state and its store; fds[i] is -1 where it was used. */
static int start_with(unsigned long max, int *fds, char **names, size_t n, struct state_start *ret)
{
    bool keeper = getenv("NOTIFY_SOCKET") != NULL;
    const char *room = getenv("FDSTORE"); /* what systemd 254 and later say */
    int r;

    if (room) {
        unsigned long v = strtoul(room, NULL, 10);
        max = v < max ? v : max;
        keeper = keeper && v > OTHERS;
    }

    for (size_t i = 0; i < n && keeper; i++) {
        if (strcmp(names[i], NAME_STATE) != 0 || is_listening(fds[i]))
            continue;
        int fd = take_fd(&fds[i]);
        if (ret->state) {
            (void) close(fd);
            continue;
        }
        r = state_load(fd, &ret->state);
        if (r < 0)
            set_aside(fd, r);
        else
            ret->successor = true;
    }
    if (!ret->state) {
        r = state_new(&ret->state);
        if (r < 0)
            return r;
    }
    if (!keeper)
        return 0;
    r = store_new(max, &ret->state->store);
    if (r < 0)
        return r;
    struct store *s = ret->state->store;
    if (!ret->successor) {
        r = tell_store(NAME_STATE, state_fd(ret->state));
        if (r < 0) {
            log_warning("descriptor store of NOTIFY_SOCKET: %s; sessions end with this etwd",
                        strerror(-r));
            ret->state->store = store_free(s);
        }
        return 0;
    }
    s->given = malloc(s->n_indexes * sizeof(*s->given));
    if (!s->given)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_indexes; i++)
        s->given[i] = (struct given){.fd = -1};
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0 && strcmp(names[i], NAME_ASIDE) != 0 && given_put(s, fds[i], names[i]) == 0)
            fds[i] = -1;
    given_match(ret->state);
    return 0;
}

/* A socket unit's comes with each start; else the one that we stored, perhaps in a state that could
 * not be read. */
static void listen_find(int *fds, char **names, size_t n, struct state_start *ret)
{
    for (size_t i = 0; i < n && ret->listen_fd < 0; i++) {
        uint32_t index;
        char letter;
        if (fds[i] < 0 || !is_listening(fds[i]))
            continue;
        ret->listen_fd = take_fd(&fds[i]);
        ret->listen_ours = name_parse(names[i], &letter, &index) == 0 && letter == STATE_FD_LISTEN;
        if (ret->listen_ours)
            tell_remove(names[i]);
    }
    if (ret->listen_fd >= 0)
        return;
    int fd = state_fd_take(ret->state, STATE_FD_LISTEN, 0);
    if (fd >= 0) {
        ret->listen_fd = fd;
        ret->listen_ours = true;
    }
}

int state_start(unsigned long max, struct state_start *ret)
{
    struct state_start start = {.listen_fd = -1};
    char **names = NULL;
    int r;

    int n = sd_listen_fds_with_names(1, &names);
    if (n < 0)
        return n;
    _cleanup_free_ int *fds = calloc((size_t) n + 1, sizeof(*fds));
    if (!fds) {
        r = -ENOMEM;
        goto finish;
    }
    for (int i = 0; i < n; i++)
        fds[i] = SD_LISTEN_FDS_START + i;
    r = start_with(max, fds, names, (size_t) n, &start);
    if (r < 0)
        goto finish;
    listen_find(fds, names, (size_t) n, &start);
    *ret = start;
    start.state = NULL;

finish:
    /* The rest has no meaning for us. */
    for (int i = 0; i < n; i++) {
        if (fds && fds[i] >= 0) {
            if (strcmp(names[i], NAME_ASIDE) != 0)
                tell_remove(names[i]);
            (void) close(fds[i]);
        }
        free(names[i]);
    }
    free(names);
    state_free(start.state);
    return r;
}

void state_start_done(struct state *st)
{
    uint64_t position = 0, key;
    uint32_t kind;
    size_t size;

    if (!state_kept(st) || !st->store->given)
        return;
    struct store *s = st->store;
    state_begin(st);
    for (const struct fd_block *b;
         (b = blocks_next(st, STATE_KIND_FD, STATE_KIND_FD_LAST, &position, &kind, &key, &size));) {
        struct given *g = &s->given[b->index];
        if (g->fd < 0)
            continue;
        g->fd = safe_close(g->fd);
        state_fd_drop(st, (enum state_fd_kind) b->letter, key);
    }
    state_commit(st);
    free(s->given);
    s->given = NULL;
}

void state_end(struct state *st)
{
    uint64_t position = 0, key;
    uint32_t kind;
    size_t size;

    if (!state_kept(st))
        return;
    state_begin(st);
    for (const struct fd_block *b;
         (b = blocks_next(st, STATE_KIND_FD, STATE_KIND_FD_LAST, &position, &kind, &key, &size));)
        state_fd_drop(st, (enum state_fd_kind) b->letter, key);
    state_commit(st);
    tell_remove(NAME_STATE);
}
