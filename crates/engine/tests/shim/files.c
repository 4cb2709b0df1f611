/*
 * A file layer between a test's child process and the operating system (LD_PRELOAD). It watches every change below one
 * directory and can
 *
 *   record   each change in the order in which the operating system saw it, so that a test can compute what a power
 *            loss at any point may have left,
 *   hold     syncs while a control file is there,
 *   fail     writes, syncs and new files with an error of the test's choice,
 *   end      the process with SIGKILL right after the n-th change, so that the record is exact.
 *
 * Invariant: a change and its entry in the record happen under one lock, so their orders agree. A sync is two entries,
 * begin and end: it covers what was recorded before its beginning, and may be relied on only after its end.
 *
 * Settings come from the environment: SHIM_ROOT (the directory), SHIM_LOG, SHIM_CONTROL (a directory with the files `hold`
 * and `fail`), SHIM_END_AFTER (changes), SHIM_SYNC_US (how long a sync takes at least).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 4096
#define PATH_BYTES_MAX 512

enum { OPEN = 1, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, RENAME, UNLINK, MKDIR };
enum { CREATED = 1, TRUNCATED = 2 };

struct file {
    int watched;
    int cut_short; /* The last write was cut short; the next one fails. */
    uint64_t inode;
    char path[PATH_BYTES_MAX];
};

static struct file files[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *root, *control;
static size_t root_bytes;
static int log_fd = -1;
static long end_after = -1;
static long sync_us = 0;
static uint64_t sync_token = 0;

static void start(void) {
    root = getenv("SHIM_ROOT");
    root_bytes = root ? strlen(root) : 0;
    control = getenv("SHIM_CONTROL");
    const char *text = getenv("SHIM_END_AFTER");
    if (text) end_after = atol(text);
    text = getenv("SHIM_SYNC_US");
    if (text) sync_us = atol(text);
    text = getenv("SHIM_LOG");
    if (text) log_fd = syscall(SYS_openat, AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    sync_token = (uint64_t)getpid() << 32;
}

static int is_watched(const char *path) {
    pthread_once(&once, start);
    return root && strncmp(path, root, root_bytes) == 0 && strlen(path) < PATH_BYTES_MAX;
}

static struct file *file_of(int fd) {
    return fd >= 0 && fd < FILES_MAX && files[fd].watched ? &files[fd] : NULL;
}

/* Whole or not at all: a record that lacks an entry would prove nothing. */
static void append(const void *bytes, size_t len) {
    while (len > 0) {
        ssize_t done = syscall(SYS_write, log_fd, bytes, len);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) abort();
        bytes = (const char *)bytes + done;
        len -= done;
    }
}

/* Called under the lock. Keeps errno, which belongs to the recorded call. */
static void record(uint8_t what, uint64_t inode, uint64_t at, const void *data, size_t len) {
    int kept = errno;
    if (log_fd >= 0) {
        char head[21];
        uint32_t data_len = len;
        head[0] = what;
        memcpy(head + 1, &inode, 8);
        memcpy(head + 9, &at, 8);
        memcpy(head + 17, &data_len, 4);
        append(head, sizeof head);
        append(data, len);
    }
    if (end_after > 0 && --end_after == 0) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = kept;
}

/* What the control file `fail` says about this operation: lines of "operation part-of-path errno". */
static int fault(const char *operation, const char *path) {
    if (!control) return 0;
    char name[PATH_BYTES_MAX], text[1024];
    snprintf(name, sizeof name, "%s/fail", control);
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t len = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[len > 0 ? len : 0] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        char what[32], part[256];
        int number;
        if (sscanf(line, "%31s %255s %d", what, part, &number) == 3 && strcmp(what, operation) == 0 &&
            strstr(path, part))
            return number;
    }
    return 0;
}

static int is_there(const char *dir, const char *name) {
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

static int do_open(const char *path, int flags, mode_t mode) {
    if (!is_watched(path)) return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    int there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    int number = (flags & O_CREAT) && !there ? fault("create", path) : 0;
    int fd = -1;
    if (number)
        errno = number;
    else
        fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    struct stat stat;
    if (fd >= FILES_MAX) abort();
    if (fd >= 0 && fstat(fd, &stat) == 0) {
        struct file *file = &files[fd];
        file->watched = 1;
        file->cut_short = 0;
        file->inode = stat.st_ino;
        strcpy(file->path, path);
        uint64_t how = (there ? 0 : CREATED) | (flags & O_TRUNC ? TRUNCATED : 0);
        record(OPEN, stat.st_ino, how, path, strlen(path));
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags, mode)                                \
    mode_t mode = 0;                                     \
    if ((flags) & (O_CREAT | O_TMPFILE)) {               \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode = va_arg(rest, mode_t);                     \
        va_end(rest);                                    \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return do_open(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return do_open(path, flags, mode); }
int creat(const char *path, mode_t mode) { return do_open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return do_open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int do_openat(int dir, const char *path, int flags, mode_t mode) {
    if (dir == AT_FDCWD || path[0] == '/') return do_open(path, flags, mode);
    return syscall(SYS_openat, dir, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...) { MODE(flags, mode) return do_openat(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags, mode) return do_openat(dir, path, flags, mode); }

int close(int fd) {
    if (file_of(fd)) {
        pthread_mutex_lock(&lock);
        files[fd].watched = 0;
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_close, fd);
}

/* A full disk takes the first half of a write and refuses the rest. Called under the lock. */
static ssize_t write_at(struct file *file, int fd, const void *data, size_t len, off_t at) {
    int number = fault("write", file->path);
    if (number && (file->cut_short || len < 2)) {
        file->cut_short = 0;
        errno = number;
        return -1;
    }
    file->cut_short = number != 0;
    ssize_t done = syscall(SYS_pwrite64, fd, data, number ? len / 2 : len, at);
    if (done > 0) record(WRITE, file->inode, at, data, done);
    return done;
}

static ssize_t do_pwrite(int fd, const void *data, size_t len, off_t at) {
    struct file *file = file_of(fd);
    if (!file) return syscall(SYS_pwrite64, fd, data, len, at);
    pthread_mutex_lock(&lock);
    ssize_t done = write_at(file, fd, data, len, at);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at) { return do_pwrite(fd, data, len, at); }
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at) { return do_pwrite(fd, data, len, at); }

/* SQLite seeks and then writes. */
ssize_t write(int fd, const void *data, size_t len) {
    struct file *file = file_of(fd);
    if (!file) return syscall(SYS_write, fd, data, len);
    pthread_mutex_lock(&lock);
    int whence = syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR;
    off_t at = syscall(SYS_lseek, fd, 0, whence);
    ssize_t done = write_at(file, fd, data, len, at);
    if (done > 0) syscall(SYS_lseek, fd, at + done, SEEK_SET);
    pthread_mutex_unlock(&lock);
    return done;
}

/* Nobody here writes vectors to these files. Should that change, the test must fail and not miss it. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (file_of(fd)) abort();
    return syscall(SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    if (file_of(fd)) abort();
    return syscall(SYS_pwritev, fd, parts, count, at, 0);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return pwritev(fd, parts, count, at); }

static int do_ftruncate(int fd, off_t len) {
    struct file *file = file_of(fd);
    if (!file) return syscall(SYS_ftruncate, fd, len);
    pthread_mutex_lock(&lock);
    int number = fault("write", file->path), done = -1;
    if (number)
        errno = number;
    else if ((done = syscall(SYS_ftruncate, fd, len)) == 0)
        record(TRUNCATE, file->inode, len, "", 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t len) { return do_ftruncate(fd, len); }
int ftruncate64(int fd, off64_t len) { return do_ftruncate(fd, len); }

int fallocate(int fd, int mode, off_t at, off_t len) {
    if (file_of(fd)) abort();
    return syscall(SYS_fallocate, fd, mode, at, len);
}
int fallocate64(int fd, int mode, off64_t at, off64_t len) { return fallocate(fd, mode, at, len); }
int posix_fallocate(int fd, off_t at, off_t len) {
    if (file_of(fd)) abort();
    return syscall(SYS_fallocate, fd, 0, at, len) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off64_t at, off64_t len) { return posix_fallocate(fd, at, len); }

static int do_sync(int fd, long call) {
    struct file *file = file_of(fd);
    if (!file) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    int number = fault("sync", file->path);
    uint64_t token = ++sync_token, inode = file->inode;
    int is_journal = strstr(file->path, "/journal") != NULL;
    if (!number) record(SYNC_BEGIN, inode, token, "", 0);
    pthread_mutex_unlock(&lock);
    if (number) {
        errno = number;
        return -1;
    }
    while (control && is_journal && is_there(control, "hold")) usleep(500);
    if (sync_us > 0) usleep(sync_us);
    int done = syscall(call, fd);
    pthread_mutex_lock(&lock);
    if (done == 0) record(SYNC_END, inode, token, "", 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return do_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return do_sync(fd, SYS_fdatasync); }

int rename(const char *from, const char *to) {
    if (!is_watched(from)) return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (done == 0) {
        char both[2 * PATH_BYTES_MAX];
        size_t len = strlen(from) + 1;
        memcpy(both, from, len);
        strcpy(both + len, to);
        record(RENAME, 0, 0, both, len + strlen(to));
        /* Faults go by the name that a file has now. */
        for (int fd = 0; fd < FILES_MAX; fd++)
            if (files[fd].watched && strcmp(files[fd].path, from) == 0) strcpy(files[fd].path, to);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int remove_name(int dir, const char *path, int flags) {
    if (dir != AT_FDCWD || !is_watched(path)) return syscall(SYS_unlinkat, dir, path, flags);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_unlinkat, dir, path, flags);
    if (done == 0) record(UNLINK, 0, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return done;
}

int unlink(const char *path) { return remove_name(AT_FDCWD, path, 0); }
int unlinkat(int dir, const char *path, int flags) { return remove_name(dir, path, flags); }

int mkdir(const char *path, mode_t mode) {
    if (!is_watched(path)) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    struct stat stat_of;
    if (done == 0 && stat(path, &stat_of) == 0) record(MKDIR, stat_of.st_ino, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return done;
}
