// The calls that start other programs: those shall be observed too, even when their caller gives
// them an environment of its own.
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

#include "record/interposer/log.h"
#include "record/interposer/wrap.h"

extern char** environ;

namespace forebay::record::interposer {
namespace {

// An environment too large for the room is passed on as it is: that program is not observed.
#define FB_OBSERVED(program, variables)                          \
  note_exec(program);                                            \
  EnvironmentRoom room;                                          \
  char* const* observed = observed_environment(variables, room); \
  if (observed == nullptr) observed = variables;

constexpr size_t kWordsMax = 4096;

// So that the recorder can look at the program: it may be one that cannot be observed.
void note_exec(const char* program) {
  if (!is_on() || program == nullptr) return;
  const KeepErrno kept;
  const int64_t now = now_ns();
  note({.operation = Operation::kExec, .start_ns = now, .end_ns = now, .text = text_of(program)});
}

}  // namespace

FB_WRAP(int, execve, (const char* path, char* const* words, char* const* variables)) {
  FB_OBSERVED(path, variables)
  return real_execve(path, words, observed);
}
FB_WRAP(int, execvpe, (const char* file, char* const* words, char* const* variables)) {
  FB_OBSERVED(file, variables)
  return real_execvpe(file, words, observed);
}
FB_WRAP(int, execv, (const char* path, char* const* words)) {
  return wrap_execve(path, words, environ);
}
FB_WRAP(int, execvp, (const char* file, char* const* words)) {
  return wrap_execvpe(file, words, environ);
}
FB_WRAP(int, fexecve, (int fd, char* const* words, char* const* variables)) {
  FB_OBSERVED(nullptr, variables)
  return real_fexecve(fd, words, observed);
}
FB_WRAP(int, execveat,
        (int folder_fd, const char* path, char* const* words, char* const* variables, int flags)) {
  FB_OBSERVED(path, variables)
  return real_execveat(folder_fd, path, words, observed, flags);
}

// The words of execl and its kin up to the null pointer; more than fit fail with E2BIG.
#define FB_TAKE_WORDS(first)                                                      \
  char* words[kWordsMax];                                                         \
  size_t count = 0;                                                               \
  va_list list;                                                                   \
  va_start(list, first);                                                          \
  for (const char* word = first; count < kWordsMax; word = va_arg(list, char*)) { \
    words[count++] = const_cast<char*>(word);                                     \
    if (word == nullptr) break;                                                   \
  }                                                                               \
  if (words[count - 1] != nullptr) {                                              \
    va_end(list);                                                                 \
    return errno = E2BIG, -1;                                                     \
  }

FB_WRAP(int, execl, (const char* path, const char* first, ...)) {
  FB_TAKE_WORDS(first)
  va_end(list);
  return wrap_execve(path, words, environ);
}
FB_WRAP(int, execlp, (const char* file, const char* first, ...)) {
  FB_TAKE_WORDS(first)
  va_end(list);
  return wrap_execvpe(file, words, environ);
}
FB_WRAP(int, execle, (const char* path, const char* first, ...)) {
  FB_TAKE_WORDS(first)
  char* const* variables = va_arg(list, char* const*);
  va_end(list);
  return wrap_execve(path, words, variables);
}

FB_WRAP(int, posix_spawn,
        (pid_t * pid, const char* path, const void* actions, const void* attributes,
         char* const* words, char* const* variables)) {
  FB_OBSERVED(path, variables)
  return real_posix_spawn(pid, path, actions, attributes, words, observed);
}
FB_WRAP(int, posix_spawnp,
        (pid_t * pid, const char* file, const void* actions, const void* attributes,
         char* const* words, char* const* variables)) {
  FB_OBSERVED(file, variables)
  return real_posix_spawnp(pid, file, actions, attributes, words, observed);
}

}  // namespace forebay::record::interposer
