/* What a busy machine does to a program, on purpose: calls that others wait for take their time, and copies of all open files
 * live on in children that have not become their program yet. Loaded with LD_PRELOAD by scripts/unsteady.
 *
 *   UNSTEADY_PAUSES    calls in a thousand that pause (10)     UNSTEADY_PAUSE_MS  for at most so long (800)
 *   UNSTEADY_COPIES    one: children hold copies of all files  UNSTEADY_COPY_MS   each for so long (400)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long setting(const char *name, unsigned long otherwise) {
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void rest(unsigned long millis) {
    struct timespec time = { millis / 1000, (millis % 1000) * 1000000 };
    nanosleep(&time, NULL);
}

static void maybe_pause(void) {
    static __thread uint64_t dice;
    if (!dice) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        dice = (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 32) ^ (uintptr_t)&dice;
        dice = dice ? dice : 1;
    }
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    if (dice % 1000 < setting("UNSTEADY_PAUSES", 10)) {
        int kept = errno;
        rest((dice >> 20) % (setting("UNSTEADY_PAUSE_MS", 800) + 1));
        errno = kept;
    }
}

/* A pause before the call, and one after it. */
#define SLOW(result, name, parameters, arguments)                                                                             \
    result name parameters {                                                                                                  \
        static result (*real) parameters;                                                                                     \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                 \
        maybe_pause();                                                                                                        \
        result done = real arguments;                                                                                         \
        maybe_pause();                                                                                                        \
        return done;                                                                                                          \
    }

SLOW(ssize_t, write, (int file, const void *bytes, size_t count), (file, bytes, count))
SLOW(ssize_t, pwrite64, (int file, const void *bytes, size_t count, off64_t at), (file, bytes, count, at))
SLOW(ssize_t, send, (int socket, const void *bytes, size_t count, int flags), (socket, bytes, count, flags))
SLOW(ssize_t, recv, (int socket, void *bytes, size_t count, int flags), (socket, bytes, count, flags))
SLOW(int, connect, (int socket, const struct sockaddr *to, socklen_t length), (socket, to, length))
SLOW(int, accept4, (int socket, struct sockaddr *from, socklen_t *length, int flags), (socket, from, length, flags))
SLOW(int, fsync, (int file), (file))
SLOW(int, fdatasync, (int file), (file))
SLOW(int, rename, (const char *from, const char *to), (from, to))
SLOW(int, flock, (int file, int how), (file, how))

/* Their parent does not hear of their end, so that nobody who waits for children is disturbed. */
static void *copy_all_files(void *unused) {
    unsigned long millis = setting("UNSTEADY_COPY_MS", 400);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        if (syscall(SYS_clone, 0, 0, 0, 0, 0) == 0) {
            rest(millis);
            syscall(SYS_exit_group, 0);
        }
        rest(millis / 8 + 1);
        while (waitpid(-1, NULL, WNOHANG | __WCLONE) > 0) {}
    }
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    if (setting("UNSTEADY_COPIES", 0) && pthread_create(&thread, NULL, copy_all_files, NULL) == 0) pthread_detach(thread);
}
