// The calls of <stdio.h>. Inside libc they read and write without passing any function that could
// be wrapped, so they are told here: only where bytes were fetched or handed over, which the
// buffer's pointers before and after say. A call that the buffer serves costs one comparison.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include <cstring>

#include "record/interposer/files.h"
#include "record/interposer/log.h"
#include "record/interposer/wrap.h"

// NOLINTBEGIN(bugprone-reserved-identifier): names of libc's own.

namespace forebay::record::interposer {
namespace {

int64_t buffered(const FILE* file) {
  return file->_IO_read_end - file->_IO_read_ptr;
}
int64_t pending(const FILE* file) {
  return file->_IO_write_ptr - file->_IO_write_base;
}
int64_t free_room(const FILE* file) {
  return file->_IO_write_end - file->_IO_write_ptr;
}

bool is_observed(const FILE* file) {
  return is_on() && file != nullptr && file->_fileno >= 0;
}

// A call on a stream that begins now.
UnderWay on_stream(Operation operation, const FILE* file) {
  const uint32_t number = file_of(file->_fileno);
  return UnderWay({.operation = operation, .file = number, .is_own = is_own_file(file->_fileno)});
}

// `moved` bytes went through the descriptor; none: the end of the file, or a failure.
void note_moved(Operation operation, int64_t start_ns, const FILE* file, int64_t moved,
                bool has_failed) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  const int fd = file->_fileno;
  const uint32_t number = file_of(fd);
  if (is_own_file(fd)) return;
  int64_t offset = kNoOffset;
  // After a seek libc knows the position; before one we do.
  if (file->_offset >= 0) {
    offset = file->_offset - moved;
    set_position(fd, file->_offset);
  } else {
    offset = advance(fd, moved);
  }
  note({.operation = operation,
        .start_ns = start_ns,
        .end_ns = end,
        .result = has_failed ? -int64_t{kept.value()} : moved,
        .file = number,
        .offset = offset});
}

// A reading call that gave the program `delivered` bytes.
void note_read(Operation operation, int64_t start_ns, const FILE* file, int64_t before,
               int64_t delivered) {
  const int64_t fetched = delivered + buffered(file) - before;
  note_moved(operation, start_ns, file, fetched > 0 ? fetched : 0,
             delivered == 0 && ferror(const_cast<FILE*>(file)) != 0);
}

// A writing call that took `taken` bytes from the program; nothing when they fit into the buffer.
void note_write(Operation operation, int64_t start_ns, const FILE* file, int64_t before,
                int64_t taken) {
  const int64_t written = taken + before - pending(file);
  if (written > 0) note_moved(operation, start_ns, file, written, false);
}

void note_fopen(int64_t start_ns, const FILE* file, const char* path, const char* mode) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (is_in_vfork()) return;
  const bool is_own = is_own_path(path);
  uint32_t number = 0;
  const bool appends = mode != nullptr && mode[0] == 'a';
  if (file != nullptr) number = new_file(file->_fileno, appends ? kUnknownPosition : 0, is_own);
  if (is_own) return;
  note({.operation = Operation::kFopen,
        .start_ns = start_ns,
        .end_ns = end,
        .result = result_of(file == nullptr ? -1 : 0, kept),
        .file = number,
        .text = text_of(path)});
}

}  // namespace

#define FB_WRAP_FOPEN(name)                                                                    \
  FB_WRAP(FILE*, name, (const char* path, const char* mode)) {                                 \
    if (!is_on()) return real_##name(path, mode);                                              \
    const UnderWay call(                                                                       \
        {.operation = Operation::kFopen, .text = text_of(path), .is_own = is_own_path(path)}); \
    FILE* file = real_##name(path, mode);                                                      \
    note_fopen(call.start_ns(), file, path, mode);                                             \
    return file;                                                                               \
  }
FB_WRAP_FOPEN(fopen)
FB_WRAP_FOPEN(fopen64)

#define FB_WRAP_FREOPEN(name)                                                                  \
  FB_WRAP(FILE*, name, (const char* path, const char* mode, FILE* file)) {                     \
    if (!is_observed(file)) return real_##name(path, mode, file);                              \
    forget_file(file->_fileno);                                                                \
    const UnderWay call(                                                                       \
        {.operation = Operation::kFopen, .text = text_of(path), .is_own = is_own_path(path)}); \
    FILE* opened = real_##name(path, mode, file);                                              \
    if (path != nullptr) note_fopen(call.start_ns(), opened, path, mode);                      \
    return opened;                                                                             \
  }
FB_WRAP_FREOPEN(freopen)
FB_WRAP_FREOPEN(freopen64)

FB_WRAP(int, fclose, (FILE * file)) {
  if (!is_observed(file) || is_in_vfork()) return real_fclose(file);
  const int fd = file->_fileno;
  const int64_t handed_over = pending(file);
  const uint32_t number = handed_over > 0 ? file_of(fd) : process_state->files[fd].number;
  const bool is_own = is_own_file(fd);
  forget_file(fd);
  const UnderWay call({.operation = Operation::kFclose, .file = number, .is_own = is_own});
  const int result = real_fclose(file);
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (!is_own)
    note({.operation = Operation::kFclose,
          .start_ns = call.start_ns(),
          .end_ns = end,
          .result = result == 0 ? handed_over : result_of(-1, kept),
          .file = number});
  return result;
}

#define FB_WRAP_FREAD(name)                                                                        \
  FB_WRAP(size_t, name, (void* out, size_t size, size_t count, FILE* file)) {                      \
    if (!is_observed(file)) return real_##name(out, size, count, file);                            \
    const int64_t before = buffered(file);                                                         \
    if (static_cast<int64_t>(size * count) <= before) return real_##name(out, size, count, file);  \
    const UnderWay call = on_stream(Operation::kFread, file);                                      \
    const size_t got = real_##name(out, size, count, file);                                        \
    note_read(Operation::kFread, call.start_ns(), file, before, static_cast<int64_t>(got * size)); \
    return got;                                                                                    \
  }
FB_WRAP_FREAD(fread)
FB_WRAP_FREAD(fread_unlocked)

FB_WRAP(size_t, __fread_chk, (void* out, size_t room, size_t size, size_t count, FILE* file)) {
  if (!is_observed(file)) return real___fread_chk(out, room, size, count, file);
  const int64_t before = buffered(file);
  if (static_cast<int64_t>(size * count) <= before)
    return real___fread_chk(out, room, size, count, file);
  const UnderWay call = on_stream(Operation::kFread, file);
  const size_t got = real___fread_chk(out, room, size, count, file);
  note_read(Operation::kFread, call.start_ns(), file, before, static_cast<int64_t>(got * size));
  return got;
}

// Lines: whether the buffer holds a whole one is only known afterwards, from its size.
#define FB_WRAP_FGETS(name)                                                                    \
  FB_WRAP(char*, name, (char* out, int size, FILE* file)) {                                    \
    if (!is_observed(file)) return real_##name(out, size, file);                               \
    const int64_t before = buffered(file);                                                     \
    if (before > 0 && (before >= size || std::memchr(file->_IO_read_ptr, '\n',                 \
                                                     static_cast<size_t>(before)) != nullptr)) \
      return real_##name(out, size, file);                                                     \
    const UnderWay call = on_stream(Operation::kFgets, file);                                  \
    char* line = real_##name(out, size, file);                                                 \
    const auto delivered = line == nullptr ? 0 : static_cast<int64_t>(std::strlen(line));      \
    note_read(Operation::kFgets, call.start_ns(), file, before, delivered);                    \
    return line;                                                                               \
  }
FB_WRAP_FGETS(fgets)
FB_WRAP_FGETS(fgets_unlocked)

#define FB_WRAP_GETLINE(name, parameters, arguments, end)                             \
  FB_WRAP(ssize_t, name, parameters) {                                                \
    if (!is_observed(file)) return real_##name arguments;                             \
    const int64_t before = buffered(file);                                            \
    if (before > 0 &&                                                                 \
        std::memchr(file->_IO_read_ptr, end, static_cast<size_t>(before)) != nullptr) \
      return real_##name arguments;                                                   \
    const UnderWay call = on_stream(Operation::kGetline, file);                       \
    const ssize_t got = real_##name arguments;                                        \
    note_read(Operation::kGetline, call.start_ns(), file, before, got > 0 ? got : 0); \
    return got;                                                                       \
  }
FB_WRAP_GETLINE(getline, (char** line, size_t* size, FILE* file), (line, size, file), '\n')
FB_WRAP_GETLINE(getdelim, (char** line, size_t* size, int end, FILE* file), (line, size, end, file),
                end)
FB_WRAP_GETLINE(__getdelim, (char** line, size_t* size, int end, FILE* file),
                (line, size, end, file), end)

#define FB_WRAP_GETC(name)                                                     \
  FB_WRAP(int, name, (FILE * file)) {                                          \
    if (!is_observed(file) || buffered(file) > 0) return real_##name(file);    \
    const UnderWay call = on_stream(Operation::kGetc, file);                   \
    const int got = real_##name(file);                                         \
    note_read(Operation::kGetc, call.start_ns(), file, 0, got == EOF ? 0 : 1); \
    return got;                                                                \
  }
FB_WRAP_GETC(fgetc)
FB_WRAP_GETC(getc)
FB_WRAP_GETC(fgetc_unlocked)
FB_WRAP_GETC(__uflow)

#define FB_WRAP_FWRITE(name)                                                          \
  FB_WRAP(size_t, name, (const void* bytes, size_t size, size_t count, FILE* file)) { \
    if (!is_observed(file) || static_cast<int64_t>(size * count) < free_room(file))   \
      return real_##name(bytes, size, count, file);                                   \
    const int64_t before = pending(file);                                             \
    const UnderWay call = on_stream(Operation::kFwrite, file);                        \
    const size_t put = real_##name(bytes, size, count, file);                         \
    note_write(Operation::kFwrite, call.start_ns(), file, before,                     \
               static_cast<int64_t>(put * size));                                     \
    return put;                                                                       \
  }
FB_WRAP_FWRITE(fwrite)
FB_WRAP_FWRITE(fwrite_unlocked)

#define FB_WRAP_FPUTS(name)                                                              \
  FB_WRAP(int, name, (const char* text, FILE* file)) {                                   \
    if (!is_observed(file)) return real_##name(text, file);                              \
    const auto size = static_cast<int64_t>(std::strlen(text));                           \
    if (size < free_room(file)) return real_##name(text, file);                          \
    const int64_t before = pending(file);                                                \
    const UnderWay call = on_stream(Operation::kFputs, file);                            \
    const int result = real_##name(text, file);                                          \
    note_write(Operation::kFputs, call.start_ns(), file, before, result < 0 ? 0 : size); \
    return result;                                                                       \
  }
FB_WRAP_FPUTS(fputs)
FB_WRAP_FPUTS(fputs_unlocked)

FB_WRAP(int, puts, (const char* text)) {
  if (!is_observed(stdout)) return real_puts(text);
  const int64_t before = pending(stdout);
  const UnderWay call = on_stream(Operation::kFputs, stdout);
  const int result = real_puts(text);
  note_write(Operation::kFputs, call.start_ns(), stdout, before,
             result < 0 ? 0 : static_cast<int64_t>(std::strlen(text)) + 1);
  return result;
}

#define FB_WRAP_FPUTC(name)                                                              \
  FB_WRAP(int, name, (int byte, FILE* file)) {                                           \
    if (!is_observed(file) || free_room(file) > 1) return real_##name(byte, file);       \
    const int64_t before = pending(file);                                                \
    const UnderWay call = on_stream(Operation::kFputs, file);                            \
    const int result = real_##name(byte, file);                                          \
    note_write(Operation::kFputs, call.start_ns(), file, before, result == EOF ? 0 : 1); \
    return result;                                                                       \
  }
FB_WRAP_FPUTC(fputc)
FB_WRAP_FPUTC(putc)

FB_WRAP(int, vfprintf, (FILE * file, const char* format, va_list list)) {
  if (!is_observed(file)) return real_vfprintf(file, format, list);
  const int64_t before = pending(file);
  const UnderWay call = on_stream(Operation::kFprintf, file);
  const int put = real_vfprintf(file, format, list);
  note_write(Operation::kFprintf, call.start_ns(), file, before, put > 0 ? put : 0);
  return put;
}
FB_WRAP(int, __vfprintf_chk, (FILE * file, int flag, const char* format, va_list list)) {
  if (!is_observed(file)) return real___vfprintf_chk(file, flag, format, list);
  const int64_t before = pending(file);
  const UnderWay call = on_stream(Operation::kFprintf, file);
  const int put = real___vfprintf_chk(file, flag, format, list);
  note_write(Operation::kFprintf, call.start_ns(), file, before, put > 0 ? put : 0);
  return put;
}

#define FB_FORWARD_LIST(last, call) \
  va_list list;                     \
  va_start(list, last);             \
  const int put = call;             \
  va_end(list);                     \
  return put;
FB_WRAP(int, fprintf, (FILE * file, const char* format, ...)){
    FB_FORWARD_LIST(format, wrap_vfprintf(file, format, list))} FB_WRAP(int, __fprintf_chk,
                                                                        (FILE * file, int flag,
                                                                         const char* format, ...)){
    FB_FORWARD_LIST(format, wrap___vfprintf_chk(file, flag, format,
                                                list))} FB_WRAP(int, printf,
                                                                (const char* format, ...)){
    FB_FORWARD_LIST(format, wrap_vfprintf(stdout, format,
                                          list))} FB_WRAP(int, __printf_chk,
                                                          (int flag, const char* format, ...)){
    FB_FORWARD_LIST(format,
                    wrap___vfprintf_chk(stdout, flag, format, list))} FB_WRAP(int, vprintf,
                                                                              (const char* format,
                                                                               va_list list)) {
  return wrap_vfprintf(stdout, format, list);
}

#define FB_WRAP_FFLUSH(name)                                                \
  FB_WRAP(int, name, (FILE * file)) {                                       \
    if (!is_observed(file) || pending(file) <= 0) return real_##name(file); \
    const int64_t before = pending(file);                                   \
    const UnderWay call = on_stream(Operation::kFflush, file);              \
    const int result = real_##name(file);                                   \
    note_write(Operation::kFflush, call.start_ns(), file, before, 0);       \
    return result;                                                          \
  }
FB_WRAP_FFLUSH(fflush)
FB_WRAP_FFLUSH(fflush_unlocked)

#define FB_WRAP_FSEEK(name, type)                                   \
  FB_WRAP(int, name, (FILE * file, type offset, int from)) {        \
    if (!is_observed(file)) return real_##name(file, offset, from); \
    const UnderWay call = on_stream(Operation::kFseek, file);       \
    const int result = real_##name(file, offset, from);             \
    const int64_t end = now_ns();                                   \
    const KeepErrno kept;                                           \
    const int fd = file->_fileno;                                   \
    const uint32_t number = file_of(fd);                            \
    if (result == 0) set_position(fd, kUnknownPosition);            \
    if (!is_own_file(fd))                                           \
      note({.operation = Operation::kFseek,                         \
            .start_ns = call.start_ns(),                            \
            .end_ns = end,                                          \
            .result = result_of(result, kept),                      \
            .file = number});                                       \
    return result;                                                  \
  }
FB_WRAP_FSEEK(fseek, long)
FB_WRAP_FSEEK(fseeko, off_t)
FB_WRAP_FSEEK(fseeko64, off_t)

FB_WRAP(void, rewind, (FILE * file)) {
  if (!is_observed(file)) return real_rewind(file);
  const UnderWay call = on_stream(Operation::kFseek, file);
  real_rewind(file);
  const int64_t end = now_ns();
  const KeepErrno kept;
  const int fd = file->_fileno;
  const uint32_t number = file_of(fd);
  set_position(fd, kUnknownPosition);
  if (!is_own_file(fd))
    note({.operation = Operation::kFseek,
          .start_ns = call.start_ns(),
          .end_ns = end,
          .file = number});
}

}  // namespace forebay::record::interposer

// NOLINTEND(bugprone-reserved-identifier)
