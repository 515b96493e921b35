#include "sys/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/mutex.h"
#include "base/text.h"

extern char** environ;

namespace forebay::sys {
namespace {

bool is_runnable_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

using Variables = std::span<const std::pair<std::string, std::string>>;

std::vector<std::string> merged_environment(Variables changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool is_replaced = false;
    for (const auto& change : changes) is_replaced = is_replaced || change.first == name;
    if (!is_replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// What SIGPIPE and SIGXFSZ did when this process began: an ignored signal survives an exec.
constexpr std::array<int, 2> kSignalsOfWriting{SIGPIPE, SIGXFSZ};
std::array<sighandler_t, 2> handlers_before{SIG_DFL, SIG_DFL};

void restore_signals_of_writing() {
  for (size_t i = 0; i < kSignalsOfWriting.size(); ++i)
    ::signal(kSignalsOfWriting[i], handlers_before[i]);
}

// The child between fork and exec: system calls only.
[[noreturn]] void run_child(int go, int failure, const char* path, char** arguments,
                            char** variables) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  restore_signals_of_writing();
  char byte = 0;
  ssize_t got = 0;
  do got = ::read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) _exit(127);  // whoever started us has gone
  ::execve(path, arguments, variables);
  const int error_number = errno;
  if (::write(failure, &error_number, sizeof error_number) != sizeof error_number) _exit(126);
  _exit(127);
}

ProcessEnd end_of(int status) {
  ProcessEnd end{.has_ended = true};
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.exit_code = 128 + end.signal;
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  return end;
}

base::Mutex helpers_mutex;
std::set<int>& helpers() {
  static std::set<int> pids;
  return pids;
}

}  // namespace

Result<Helper> Helper::start(std::vector<std::string> command) {
  const std::string program = FB_TRY(find_program(command.empty() ? "" : command[0]));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return error_from_errno(errno, "pipe");
  ScopedFd read_end(ends[0]), write_end(ends[1]);
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  const ScopedFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<char*> arguments = pointers(command);
  base::MutexLock lock(helpers_mutex);
  const int pid = ::fork();
  if (pid < 0) return error_from_errno(errno, program, "starting");
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setpgid(0, 0);  // a key on the terminal is meant for the observed program
    ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    ::dup2(nothing.get(), 0);
    ::dup2(write_end.get(), 1);
    ::dup2(nothing.get(), 2);
    ::execv(program.c_str(), arguments.data());
    _exit(127);
  }
  helpers().insert(pid);
  return Helper(pid, std::move(read_end));
}

Helper::Helper(Helper&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), output_(std::move(other.output_)) {}

Helper::~Helper() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  base::MutexLock lock(helpers_mutex);
  helpers().erase(pid_);
}

std::string Helper::read_more() {
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t got = ::read(output_.get(), piece, sizeof piece);
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

bool is_helper(int pid) {
  base::MutexLock lock(helpers_mutex);
  return helpers().count(pid) != 0;
}

void ignore_signals_of_writing() {
  for (size_t i = 0; i < kSignalsOfWriting.size(); ++i)
    handlers_before[i] = ::signal(kSignalsOfWriting[i], SIG_IGN);
}

Result<std::string> find_program(const std::string& name) {
  if (name.empty()) return fail(ErrorCode::kNotFound, "no program is named");
  if (name.find('/') != std::string::npos) return name;
  const char* variable = std::getenv("PATH");
  const std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (const std::string_view folder : base::split(path, ':')) {
    std::string file = folder.empty() ? name : std::string(folder) + "/" + name;
    if (is_runnable_file(file)) return file;
  }
  return fail(ErrorCode::kNotFound, "{}: command not found", name);
}

ChildProcess::ChildProcess(int pid, ScopedFd go, ScopedFd failure)
    : pid_(pid), go_(std::move(go)), failure_(std::move(failure)) {}

ChildProcess::~ChildProcess() {
  go_.reset();  // the child reads the end of the pipe and leaves
}

Result<ChildProcess> ChildProcess::start(std::vector<std::string> command, Variables environment) {
  const std::string program = FB_TRY(find_program(command.empty() ? "" : command[0]));
  int go[2], failure[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return error_from_errno(errno, "pipe");
  ScopedFd go_read(go[0]), go_write(go[1]);
  if (::pipe2(failure, O_CLOEXEC) != 0) return error_from_errno(errno, "pipe");
  ScopedFd failure_read(failure[0]), failure_write(failure[1]);
  std::vector<std::string> variables = merged_environment(environment);
  const std::vector<char*> variable_pointers = pointers(variables);
  const std::vector<char*> argument_pointers = pointers(command);

  const int pid = ::fork();
  if (pid < 0) return error_from_errno(errno, program, "starting");
  if (pid == 0) {
    ::close(go_write.get());
    run_child(go_read.get(), failure_write.get(), program.c_str(),
              const_cast<char**>(argument_pointers.data()),
              const_cast<char**>(variable_pointers.data()));
  }
  return ChildProcess(pid, std::move(go_write), std::move(failure_read));
}

int ChildProcess::release() {
  const char byte = 1;
  if (::write(go_.get(), &byte, 1) != 1) return errno;
  go_.reset();
  int error_number = 0;
  ssize_t got = 0;
  // The other end closes when the exec succeeds.
  do got = ::read(failure_.get(), &error_number, sizeof error_number);
  while (got < 0 && errno == EINTR);
  failure_.reset();
  return got == sizeof error_number ? error_number : 0;
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int reap_child(ProcessEnd& end) {
  int status = 0;
  const int pid = ::waitpid(-1, &status, WNOHANG);
  if (pid > 0) end = end_of(status);
  return pid < 0 && errno != ECHILD ? 0 : pid;
}

void send_signal(int pid, int signal) {
  if (pid > 0) ::kill(pid, signal);
}

bool is_running(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  // The state follows the name in brackets, which may hold anything.
  const size_t at = text.rfind(") ");
  return at != std::string::npos && text[at + 2] != 'Z' && text[at + 2] != 'X';
}

}  // namespace forebay::sys
