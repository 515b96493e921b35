#include "record/interposer/files.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace forebay::record::interposer {
namespace {

OpenFile* entry_of(int fd) {
  return fd >= 0 && fd < kDescriptorsMax ? &process_state->files[fd] : nullptr;
}

size_t append(char* out, size_t at, const char* text) {
  const size_t size = std::strlen(text);
  std::memcpy(out + at, text, size);  // NOLINT(bugprone-not-null-terminated-result)
  return at + size;
}

size_t append_number(char* out, size_t at, unsigned number) {
  char digits[12];
  size_t count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (count > 0) out[at++] = digits[--count];
  return at;
}

// Between processes of this host, whether it has a peer yet or not.
bool is_unix_socket(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 && own.ss_family == AF_UNIX;
}

// "tcp:10.0.0.1:443", "unix:/run/x"; 0 bytes when the socket has no peer with a name.
size_t peer_text(int fd, char* out) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  size_t at = 0;
  if (peer.ss_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&peer);
    at = append(out, at, "tcp:");
    if (inet_ntop(AF_INET, &address->sin_addr, out + at, 64) == nullptr) return 0;
    at = append(out, std::strlen(out), ":");
    return append_number(out, at, ntohs(address->sin_port));
  }
  if (peer.ss_family == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&peer);
    at = append(out, at, "tcp:[");
    if (inet_ntop(AF_INET6, &address->sin6_addr, out + at, 64) == nullptr) return 0;
    at = append(out, std::strlen(out), "]:");
    return append_number(out, at, ntohs(address->sin6_port));
  }
  if (peer.ss_family != AF_UNIX) return 0;
  const auto* address = reinterpret_cast<const sockaddr_un*>(&peer);
  if (size <= offsetof(sockaddr_un, sun_path) || address->sun_path[0] == '\0') return 0;
  at = append(out, at, "unix:");
  const size_t length = strnlen(address->sun_path, sizeof address->sun_path);
  std::memcpy(out + at, address->sun_path, length);
  return at + length;
}

// What /proc calls a descriptor, or the peer of a socket.
size_t descriptor_text(int fd, char* out, size_t room) {
  char path[32];
  size_t at = append(path, 0, "/proc/self/fd/");
  at = append_number(path, at, static_cast<unsigned>(fd));
  path[at] = '\0';
  // Not the wrapper of readlink: this is no call of the program.
  using Readlink = ssize_t (*)(const char*, char*, size_t);
  static Readlink real = nullptr;
  if (real == nullptr) real = reinterpret_cast<Readlink>(dlsym(RTLD_NEXT, "readlink"));
  const ssize_t got = real(path, out, room);
  if (got <= 0) return 0;
  if (got > 7 && std::memcmp(out, "socket:", 7) == 0) {
    char peer[256];
    if (const size_t size = peer_text(fd, peer); size > 0) {
      std::memcpy(out, peer, size);
      return size;
    }
    if (is_unix_socket(fd)) {  // "socket:[7]" -> "unix:[7]"
      std::memmove(out + 5, out + 7, static_cast<size_t>(got) - 7);
      std::memcpy(out, "unix:", 5);
      return static_cast<size_t>(got) - 2;
    }
  }
  return static_cast<size_t>(got);
}

uint32_t define(int fd, OpenFile& entry) {
  const KeepErrno keep;
  char text[kTextBytesInLogMax];
  const size_t size = descriptor_text(fd, text, sizeof text - 1);
  text[size] = '\0';
  entry.is_own = size > 0 && is_own_path(text) ? 1 : 0;
  entry.position = kUnknownPosition;
  if (size == 0) return 0;
  const uint32_t number = __atomic_add_fetch(&process_state->file_count, 1, __ATOMIC_RELAXED);
  const int64_t now = now_ns();
  note({.operation = Operation::kFile,
        .start_ns = now,
        .end_ns = now,
        .file = number,
        .text = {text, size}});
  // After the definition is in the log: other threads use the number at once.
  __atomic_store_n(&entry.number, number, __ATOMIC_RELEASE);
  return number;
}

}  // namespace

uint32_t file_of(int fd) {
  OpenFile* entry = entry_of(fd);
  if (entry == nullptr) return 0;
  const uint32_t number = __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE);
  return __builtin_expect(number != 0, 1) ? number : define(fd, *entry);
}

bool is_own_file(int fd) {
  const OpenFile* entry = entry_of(fd);
  return entry != nullptr && entry->is_own != 0;
}

uint32_t new_file(int fd, int64_t position, bool is_own) {
  OpenFile* entry = entry_of(fd);
  if (entry == nullptr) return 0;
  const uint32_t number = __atomic_add_fetch(&process_state->file_count, 1, __ATOMIC_RELAXED);
  entry->position = position;
  entry->is_own = is_own ? 1 : 0;
  __atomic_store_n(&entry->number, number, __ATOMIC_RELEASE);
  return number;
}

void forget_file(int fd) {
  OpenFile* entry = entry_of(fd);
  // A child of fork must not touch pages that it never uses.
  if (entry == nullptr || (entry->number == 0 && entry->is_own == 0)) return;
  entry->is_own = 0;
  __atomic_store_n(&entry->number, 0, __ATOMIC_RELEASE);
}

void forget_files(unsigned first, unsigned last) {
  for (unsigned fd = first; fd <= last && fd < static_cast<unsigned>(kDescriptorsMax); ++fd)
    forget_file(static_cast<int>(fd));
}

int64_t advance(int fd, int64_t moved) {
  OpenFile* entry = entry_of(fd);
  if (entry == nullptr) return kNoOffset;
  const int64_t at = __atomic_load_n(&entry->position, __ATOMIC_RELAXED);
  if (at < 0) return kNoOffset;
  if (moved <= 0) return at;
  return __atomic_fetch_add(&entry->position, moved, __ATOMIC_RELAXED);
}

void set_position(int fd, int64_t position) {
  OpenFile* entry = entry_of(fd);
  if (entry != nullptr) __atomic_store_n(&entry->position, position, __ATOMIC_RELAXED);
}

void note_working_folder() {
  const KeepErrno keep;
  char text[kTextBytesInLogMax];
  if (getcwd(text, sizeof text) == nullptr) return;
  const int64_t now = now_ns();
  note({.operation = Operation::kFolder, .start_ns = now, .end_ns = now, .text = text_of(text)});
}

}  // namespace forebay::record::interposer
