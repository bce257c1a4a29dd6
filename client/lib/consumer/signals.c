/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of callbacks: while any thread is in ProcessTrace, those of SIGSEGV, SIGBUS, SIGFPE and
 * SIGILL that the program left at SIG_DFL have our handler. A synchronous fault inside a callback
 * jumps back into ProcessTrace, which answers ERROR_NOACCESS. Everything else that reaches the
 * handler (a fault of another thread, a fault outside a callback, a signal sent by kill(2)) gets
 * the default action, with the status and the core file that it would have had without us.
 *
 * A handler of the program is never replaced, also one that it sets while we run. The last thread
 * to leave puts SIG_DFL back where our handler still is. A program that saved our handler as "the
 * old one" and calls or restores it later gets the default action from it.
 *
 * Per thread: the four signals are unblocked (a blocked synchronous fault kills), and a thread
 * without an alternate stack gets one, so that a callback may overflow its stack. Both are undone
 * by faults_leave().
 */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* Beyond what the kernel needs for its frame: our handler and siglongjmp, or a handler of the
 * program for another signal that asks for the alternate stack. */
#define ALTERNATE_STACK_EXTRA 65536u

static struct {
    pthread_mutex_t lock;
    unsigned users;
    bool ours[ARRAY_SIZE(fault_signals)];
    struct sigaction before[ARRAY_SIZE(fault_signals)];
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* initial-exec: no lazy allocation of TLS may happen in the handler. */
static __thread struct fault_frame *current __attribute__((tls_model("initial-exec")));

static bool is_synchronous(const siginfo_t *info)
{
    if (info->si_code <= 0)
        return false;
    /* Memory went bad somewhere; the thread did not touch it. */
    return !(info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    struct fault_frame *f = current;
    int saved_errno = errno;

    if (f && f->in_callback && is_synchronous(info)) {
        f->in_callback = 0;
        siglongjmp(f->env, sig);
    }
    (void) sigaction(sig, &by_default, NULL);
    /* A fault happens again when we return; a signal that was sent must be sent again. It stays
     * blocked until the return. */
    if (!is_synchronous(info) &&
        syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t) syscall(SYS_gettid), sig, info) < 0)
        (void) raise(sig);
    errno = saved_errno;
}

static bool is_ours(const struct sigaction *sa)
{
    return (sa->sa_flags & SA_SIGINFO) && sa->sa_sigaction == on_fault;
}

static bool is_default(const struct sigaction *sa)
{
    return !(sa->sa_flags & SA_SIGINFO) && sa->sa_handler == SIG_DFL;
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;

    (void) sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(fault_signals); i++) {
        if (sigaction(fault_signals[i], NULL, &now) < 0)
            continue;
        if (is_default(&now) && sigaction(fault_signals[i], &ours, NULL) == 0) {
            faults.before[i] = now;
            faults.ours[i] = true;
        } else if (is_ours(&now) && !faults.ours[i]) {
            /* The program put back what it once took from us. */
            faults.before[i] = (struct sigaction){.sa_handler = SIG_DFL};
            faults.ours[i] = true;
        }
    }
}

static void uninstall(void)
{
    struct sigaction now;

    for (size_t i = 0; i < ARRAY_SIZE(fault_signals); i++) {
        if (faults.ours[i] && sigaction(fault_signals[i], NULL, &now) == 0 && is_ours(&now))
            (void) sigaction(fault_signals[i], &faults.before[i], NULL);
        faults.ours[i] = false;
    }
}

static void unblock(struct fault_frame *f)
{
    sigset_t set;
    sigset_t old;

    (void) sigemptyset(&f->reblock);
    (void) sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(fault_signals); i++)
        if (faults.ours[i])
            (void) sigaddset(&set, fault_signals[i]);
    if (pthread_sigmask(SIG_UNBLOCK, &set, &old) != 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(fault_signals); i++)
        if (sigismember(&set, fault_signals[i]) && sigismember(&old, fault_signals[i]))
            (void) sigaddset(&f->reblock, fault_signals[i]);
}

/* Without one (no memory), all but a stack overflow is still caught. */
static void give_stack(struct fault_frame *f)
{
    stack_t now;
    stack_t ours = {0};

    f->stack = NULL;
    if (sigaltstack(NULL, &now) < 0 || !(now.ss_flags & SS_DISABLE))
        return;
    f->stack_size = ALIGN_UP(getauxval(AT_MINSIGSTKSZ) + ALTERNATE_STACK_EXTRA, 4096u);
    ours.ss_sp =
        mmap(NULL, f->stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ours.ss_sp == MAP_FAILED)
        return;
    ours.ss_size = f->stack_size;
    if (sigaltstack(&ours, NULL) < 0) {
        (void) munmap(ours.ss_sp, f->stack_size);
        return;
    }
    f->stack = ours.ss_sp;
}

static void take_stack(struct fault_frame *f)
{
    static const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;

    if (!f->stack)
        return;
    /* The callback may have set its own since. */
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == f->stack && sigaltstack(&none, NULL) < 0)
        return; /* still running on it: better kept than unmapped under our feet */
    (void) munmap(f->stack, f->stack_size);
    f->stack = NULL;
}

void faults_enter(struct fault_frame *f)
{
    f->in_callback = 0;
    give_stack(f);
    (void) pthread_mutex_lock(&faults.lock);
    faults.users++;
    install();
    unblock(f);
    (void) pthread_mutex_unlock(&faults.lock);
    f->previous = current;
    current = f;
}

void faults_leave(struct fault_frame *f)
{
    f->in_callback = 0;
    current = f->previous;
    (void) pthread_mutex_lock(&faults.lock);
    if (--faults.users == 0)
        uninstall();
    (void) pthread_mutex_unlock(&faults.lock);
    (void) pthread_sigmask(SIG_BLOCK, &f->reblock, NULL);
    take_stack(f);
}

void faults_fork_prepare(void)
{
    (void) pthread_mutex_lock(&faults.lock);
}

void faults_fork_parent(void)
{
    (void) pthread_mutex_unlock(&faults.lock);
}

/* The child has this thread only: the stays of the others ended with it. */
void faults_fork_child(void)
{
    faults.users = 0;
    for (struct fault_frame *f = current; f; f = f->previous)
        faults.users++;
    if (faults.users == 0)
        uninstall();
    (void) pthread_mutex_unlock(&faults.lock);
}
