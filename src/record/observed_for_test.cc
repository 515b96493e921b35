// A program to be recorded in tests: does a stated number of things, and nothing else to the files
// it is given. observed_for_test MODE FOLDER [N]
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/mark.h"

extern char** environ;

namespace {

constexpr int kFiles = 20;

std::string file_name(const std::string& folder, int i) {
  return folder + "/" + std::to_string(i % kFiles) + ".bin";
}

// Opens, two reads of 4096 bytes, close.
int read_with_calls(const std::string& folder, int count) {
  char bytes[4096];
  for (int i = 0; i < count; ++i) {
    const int fd = open(file_name(folder, i).c_str(), O_RDONLY);
    if (fd < 0 || read(fd, bytes, sizeof bytes) != 4096 || read(fd, bytes, sizeof bytes) != 4096)
      return 1;
    close(fd);
  }
  return 0;
}

void pause_10_ms() {
  const timespec time{.tv_sec = 0, .tv_nsec = 10'000'000};
  nanosleep(&time, nullptr);
}

int read_with_stdio(const std::string& folder, int count) {
  char bytes[4096];
  for (int i = 0; i < count; ++i) {
    FILE* file = fopen(file_name(folder, i).c_str(), "rb");
    if (file == nullptr) return 1;
    for (int part = 0; part < 2; ++part)
      if (fread(bytes, 1, sizeof bytes, file) != sizeof bytes) return 1;
    fclose(file);
  }
  return 0;
}

void* read_in_thread(void* folder) {
  return reinterpret_cast<void*>(
      static_cast<intptr_t>(read_with_calls(*static_cast<std::string*>(folder), 10)));
}

int read_in_threads(std::string folder, int count) {
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, read_in_thread, &folder);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}

// Children read and end without another program; the parent waits.
int read_in_forks(const std::string& folder, int count) {
  for (int i = 0; i < count; ++i)
    if (fork() == 0) _exit(read_with_calls(folder, 10));
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    int status = 0;
    wait(&status);
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}

// The child of a vfork closes the parent's descriptor in its own table and runs another program.
int read_around_vfork(const std::string& folder, const char* self) {
  const int fd = open(file_name(folder, 0).c_str(), O_RDONLY);
  char bytes[100];
  const pid_t child = vfork();  // NOLINT: what is tested
  if (child == 0) {
    close(fd);
    execl(self, self, "calls", folder.c_str(), "3", static_cast<char*>(nullptr));
    _exit(1);
  }
  waitpid(child, nullptr, 0);
  return read(fd, bytes, sizeof bytes) == sizeof bytes ? 0 : 1;
}

// Starts itself with an environment that holds nothing.
int read_in_spawn(const std::string& folder, char* self) {
  char mode[] = "calls", count[] = "5";
  std::string path = folder;
  char* words[] = {self, mode, path.data(), count, nullptr};
  char* variables[] = {nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self, nullptr, nullptr, words, variables) != 0) return 1;
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void* hold_lock(void* /*nothing*/) {
  pthread_mutex_lock(&lock);
  const timespec time{.tv_sec = 0, .tv_nsec = 50'000'000};
  nanosleep(&time, nullptr);
  pthread_mutex_unlock(&lock);
  return nullptr;
}

// Each way to wait for a child that takes 50 ms.
int wait_for_children() {
  if (std::system("sleep 0.05") != 0) return 1;
  FILE* const stream = popen("sleep 0.05", "r");
  if (stream == nullptr || pclose(stream) != 0) return 1;
  for (int way = 0; way < 4; ++way) {
    const pid_t child = fork();
    if (child == 0) {
      const timespec time{.tv_sec = 0, .tv_nsec = 50'000'000};
      nanosleep(&time, nullptr);
      _exit(0);
    }
    int status = 0;
    siginfo_t info;
    const bool is_well = way == 0   ? wait3(&status, 0, nullptr) == child
                         : way == 1 ? waitpid(child, &status, 0) == child
                         : way == 2 ? waitid(P_PID, static_cast<id_t>(child), &info, WEXITED) == 0
                                    : syscall(SYS_wait4, child, &status, 0, nullptr) == child;
    if (!is_well) return 1;
  }
  return 0;
}

// Two threads that each hold one lock for 50 ms: one of them waits for it.
int contend() {
  pthread_t threads[2];
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, hold_lock, nullptr);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}

int mark(const std::string& folder, int count) {
  forebay_mark("epoch 1");
  for (int i = 0; i < count; ++i) {
    forebay_mark_begin(("step " + std::to_string(i)).c_str());
    forebay_mark_begin("load");
    const int failed = read_with_calls(folder, 1);
    forebay_mark_end("load");
    forebay_mark_end(("step " + std::to_string(i)).c_str());
    if (failed != 0) return failed;
  }
  return 0;
}

void* read_from_nobody(void* /*nothing*/) {
  int ends[2];
  char byte = 0;
  return pipe(ends) == 0 && read(ends[0], &byte, 1) == 1 ? nullptr : &lock;
}

// Goes into a call that does not return, and says so before by a file.
int hang(std::string_view mode, const std::string& folder) {
  FILE* const marker = fopen((folder + "/hangs").c_str(), "w");
  if (marker == nullptr || fclose(marker) != 0) return 1;
  if (mode == "hang-open") return open((folder + "/fifo").c_str(), O_RDONLY);
  if (mode == "hang-sleep") {
    const timespec time{.tv_sec = 100'000, .tv_nsec = 0};
    return nanosleep(&time, nullptr);
  }
  if (mode == "hang-signal") {
    sigset_t none;
    sigemptyset(&none);
    return sigsuspend(&none);
  }
  if (mode == "hang-flock") {  // on a lock of its own: another opening of the file is another owner
    const std::string path = folder + "/lock";
    const int held = open(path.c_str(), O_CREAT | O_RDWR, 0600);
    const int wanted = open(path.c_str(), O_RDWR);
    return flock(held, LOCK_EX) == 0 ? flock(wanted, LOCK_EX) : 1;
  }
  if (mode == "hang-thread") {
    pthread_t thread;
    pthread_create(&thread, nullptr, read_from_nobody, nullptr);
    return pthread_join(thread, nullptr);
  }
  return read_from_nobody(nullptr) == nullptr ? 0 : 1;
}

// Without standard streams: the first file opened gets number 0.
int read_without_streams(const std::string& folder) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  return open(file_name(folder, 0).c_str(), O_RDONLY) == 0 && read_with_calls(folder, 4) == 0 ? 0
                                                                                              : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const std::string_view mode = words[1];
  const std::string folder = count > 2 ? words[2] : "";
  const int n = count > 3 ? std::atoi(words[3]) : 0;
  if (mode == "calls") return read_with_calls(folder, n);
  if (mode == "stdio") return read_with_stdio(folder, n);
  if (mode == "threads") return read_in_threads(folder, n);
  if (mode == "forks") return read_in_forks(folder, n);
  if (mode == "vfork") return read_around_vfork(folder, words[0]);
  if (mode == "spawn") return read_in_spawn(folder, words[0]);
  if (mode == "contend") return contend();
  if (mode == "children") return wait_for_children();
  if (mode == "marks") return mark(folder, n);
  if (mode == "nofds") return read_without_streams(folder);
  if (mode.starts_with("hang-")) return hang(mode, folder);
  if (mode == "exit") return n;
  if (mode == "die") {
    read_with_calls(folder, 10);
    kill(getpid(), SIGKILL);
  }
  if (mode == "forever")
    while (read_with_calls(folder, 10) == 0) pause_10_ms();
  return 3;
}
