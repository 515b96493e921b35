/* Marks in a program of your own, for `forebay record`: steps, epochs, ranges. C and C++, no
 * library to link. Without a recorder a mark costs a comparison.
 *
 *   forebay_mark_begin("step");        a range, ended by the latest begin of the same thread
 *   ...
 *   forebay_mark_end("step");
 *   forebay_mark("epoch 3");           a moment
 *
 * Ranges whose text is "step" or "iteration", alone or with a number behind ("step 12"), are the
 * iterations that `forebay explain` works with. Any thread; a child of fork marks as itself. A text
 * is one line, at most 200 bytes of it are kept. errno is left as it was. Needs POSIX's names: with
 * -std=c11 also -D_GNU_SOURCE.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): C too includes this */

#ifdef __cplusplus
extern "C" {
#endif

/* One for the whole program, however many files include this. */
__attribute__((weak)) int forebay_mark_file_ = -1; /* of this process; -2: nobody records */
__attribute__((weak)) int forebay_mark_pid_ = 0;

static inline void forebay_mark_open_(void) {
  const char* folder = getenv("FOREBAY_MARKS");
  char path[4096];
  forebay_mark_file_ = -2;
  if (folder == NULL || *folder == '\0') return;
  forebay_mark_pid_ = (int)getpid();
  if (snprintf(path, sizeof path, "%s/%d.marks", folder, forebay_mark_pid_) >= (int)sizeof path)
    return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0) forebay_mark_file_ = file;
}

/* kind: B begins, E ends, I a moment. */
static inline void forebay_mark_write_(char kind, const char* text) {
  if (forebay_mark_file_ == -2) return;
  const int kept = errno;
  if (forebay_mark_file_ == -1 || forebay_mark_pid_ != (int)getpid()) forebay_mark_open_();
  if (forebay_mark_file_ >= 0) {
    struct timespec now;
    char line[256];
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long long ns = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
    const int size =
        snprintf(line, sizeof line, "%c %lld %ld %.200s\n", kind, ns, syscall(SYS_gettid), text);
    /* One write for a line: lines of threads do not mix. A full disk loses marks, nothing else. */
    if (size > 0 && write(forebay_mark_file_, line, (size_t)size) < 0) errno = kept;
  }
  errno = kept;
}

static inline void forebay_mark_begin(const char* text) {
  forebay_mark_write_('B', text);
}
static inline void forebay_mark_end(const char* text) {
  forebay_mark_write_('E', text);
}
static inline void forebay_mark(const char* text) {
  forebay_mark_write_('I', text);
}

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-*) */
